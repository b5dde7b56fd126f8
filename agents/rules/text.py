"""From a message to the sentences in which its author may be stating something.

What the author only passes on is taken out first: code, quoted lines, tagged blocks, recalled memories. A
request to play, translate or write something ends the reading of that message, since what follows is material.
"""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from agents.rules.required import RequiredWords

_FOREIGN: Final = re.compile(
    r"```.*?(?:```|\Z)"  # fenced code
    r"|`[^`\n]*`"
    r"|<([A-Za-z][\w:-]*)\b[^<>]*>.*?(?:</\1\s*>|\Z)"  # tagged block
    r"|^[ \t]*>.*?$"  # quoted line
    r"|^[ \t]*[-*]?[ \t]*\w+::\w+.*?$"  # line of a printed profile
    r"|^[ \t#*\[(【]*(?:(?:system|assistant|user)[ _]?(?:prompt|profile|memory)|(?:relevant |recalled |known )?memor(?:y|ies)"
    r"|known facts|what you know about me|assistant|system"
    r"|系统提示词?|系统消息|(?:相关|历史|召回的?)?记忆|用户画像|用户资料|用户信息|助手|关于我的记忆)[\])】 \t*]*[:：\n].*?(?:\n[ \t]*\n|\Z)",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)

_FOREIGN_MARK: Final = re.compile(r"[`<>:：\n]")
"""One of these is in everything that is foreign."""

_TAKEOVERS: Final = (
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:above|previous|prior|earlier|instructions?|rules|everything)\b",
    r"\b(?:pretend|role-?play|act as|acting as|you are now|imagine (?:that )?(?:you|I|we)|let's imagine|make believe)\b",
    r"\b(?:translate|proofread|rewrite|rephrase|paraphrase|summari[sz]e|polish|correct|edit|repeat|output|print)\b"
    r".{0,30}(?:\b(?:this|these|following|sentences?|text|email|letter|paragraph|after me|exactly|only)\b|[:\"“])",
    r"\b(?:write|draft|compose)\b.{0,25}\b(?:story|poem|email|letter|bio|essay|diary|speech|dialogue|scene|sentence|paragraph"
    r"|lyrics|song|message|post|novel|script)\b",
    r"\b(?:an example|for example|lyrics|the (?:story|novel|song|text|poem|letter|email|quote|line) (?:goes|begins|says|reads))\s*:",
    r"(?:忽略|无视|忘记|忘掉).{0,12}(?:以上|上面|之前|前面|指令|规则|设定|提示)",
    r"假装|扮演|你现在是|从现在起你是|想象(?:一下)?(?:你|我)|角色设定|人设",
    r"(?:翻译|润色|改写|复述|重复|校对|概括|总结|输出|打印).{0,10}(?:下面|以下|这|一下|[:：“\"「])",
    r"(?:下面|以下|把).{0,20}(?:翻译|润色|改写|复述|校对)",
    r"(?:写|编|创作|起草)(?:了)?(?:一|个|首|篇|段|封|几).{0,12}(?:故事|诗|邮件|信|散文|小说|作文|日记|台词|剧本|歌词|自我介绍|文案|文章|对话|检讨)",
    r"用.{0,10}造句|歌词(?:是|里|写)|(?:故事|小说|文章|信)里?(?:是这样)?(?:写道|写着|说)",
)
_TAKEOVER: Final = re.compile("|".join(_TAKEOVERS), re.IGNORECASE)
_TAKEOVER_WORDS: Final = RequiredWords(_TAKEOVERS, re.IGNORECASE)

_TITLE: Final = r"《[^》\n]{1,80}》"
_SPEECH: Final = (
    # Each branch begins with a character of its own, so that the search skips from one of them to the next.
    r'"[^"\n]{1,400}"|“[^”]{1,2000}”|「[^」]{1,2000}」|『[^』]{1,2000}』|‘[^’\n]{1,400}’(?!\w)'
    r"|'(?<!\w')(?:[^'\n]|(?<=\w)'(?=\w)){3,400}'(?!\w)"
)
_SPANS: Final = re.compile(f"{_TITLE}|{_SPEECH}")
_QUOTED: Final = re.compile(_SPEECH)
_FIRST_PERSON: Final = re.compile(r"我|咱|俺|\b(?:I|I'm|I’m|my|me|mine)\b", re.IGNORECASE)
_LONGEST: Final = 1_000
"""Characters of the longest sentence that is read: nobody says who they are in a longer one."""

_MASK: Final = "\ufffc"

_END: Final = re.compile(
    # It begins with the marks that all ends begin with, so that the search skips from one of them to the next.
    r"[。！？!?\n.…~～](?:(?<=[。！？!?\n])[。！？!?\n]*[”」』\"’)）]*|(?<=[^\W\d_]\.)(?=[\s\"”)]|$)|(?<=[\d)]\.)(?=\s+[A-Z]|\s*$)"
    r"|(?<=[.…])[.…]+|(?<=[~～])[~～]*(?=\s|$))"
)
_ABBREVIATION: Final = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Prof|vs|etc|e\.g|i\.e|approx|Jr|Sr)|\b[A-Z])$")
_ENDS_SENTENCE: Final = re.compile(r"[。！？!?.…][”」』\"’']$")

_BEGINS_SENTENCE: Final = re.compile(r"\s*(?:[A-Z\u4e00-\u9fff]|$)")

_QUESTION: Final = re.compile(r"[?？][\s)）\"”」~～!！]*$|(?:吗|(?<![什怎那多这])么)[。~～\s]*$")
_LAST_BREAK: Final = re.compile(r"[,，;；]|\s[-–—]+\s|——")
_TAG_QUESTION: Final = re.compile(
    r"\s*(?:right|correct|yes|yeah|no|huh|eh|ok|okay|true|or not|is that (?:right|correct|true)"
    r"|(?:is|are|am|do|does|did|have|has|was|were|can|could|would|will)(?:n['’]t)? (?:I|it|that|this|they)(?: not)?"
    r"|对吗|对吧|对么|是吗|是吧|是么|对不对|是不是|没错吧|不是吗|真的吗|这样吗|是这样吗|有没有|好不好)\s*[?？。~～\s]*$",
    re.IGNORECASE,
)


def statements(content: str) -> Iterator[str]:
    """Yield the message's own sentences that are no questions, verbatim and trimmed, in order.

    A question at the end of a sentence is cut off: of "I love painting, do you?" the first half is yielded.
    """
    own = _FOREIGN.sub("\n", content) if _FOREIGN_MARK.search(content) else content
    may_take_over = bool(_TAKEOVER_WORDS.candidates(own))
    for sentence in _sentences(own):
        if may_take_over and _TAKEOVER.search(sentence):
            return
        statement = _without_question(sentence) if len(sentence) <= _LONGEST else ""
        if statement:
            yield statement


def mask_speech(sentence: str) -> str:
    """Return the sentence with quoted speech in the first person blotted out: those words are someone else's."""
    return _QUOTED.sub(lambda span: _MASK if _FIRST_PERSON.search(span[0]) else span[0], sentence)


def _sentences(text: str) -> Iterator[str]:
    spans = [span.span() for span in _SPANS.finditer(text)]
    begins = [start for start, _ in spans]
    cuts = {
        end
        for start, end in spans
        if _ENDS_SENTENCE.search(text, start, end) and text[start] != "《" and _BEGINS_SENTENCE.match(text, end)
    }
    for mark in _END.finditer(text):
        nearest = bisect_left(begins, mark.start()) - 1
        inside = nearest >= 0 and mark.start() < spans[nearest][1] - 1
        if not inside and not (mark[0] == "." and _ABBREVIATION.search(text, max(0, mark.start() - 8), mark.start())):
            cuts.add(mark.end())
    begin = 0
    for cut in (*sorted(cuts), len(text)):
        sentence = text[begin:cut].strip()
        begin = max(begin, cut)
        if sentence:
            yield sentence


def _without_question(sentence: str) -> str:
    if not _QUESTION.search(sentence):
        return sentence
    breaks = list(_LAST_BREAK.finditer(sentence))
    if not breaks or _TAG_QUESTION.match(sentence, breaks[-1].end()):
        return ""
    return sentence[: breaks[-1].start()].strip()
