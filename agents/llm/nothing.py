"""`is_nothing`: tells a value from the words that there is none, which models write for an empty list."""

from __future__ import annotations

import re
from typing import Final

_PLACEHOLDERS: Final = frozenset(("", "...", "…", "-", "—", "?"))

_ENGLISH: Final = r"""
    none | nothing | null | n/a | n\.a\. | unknown | undefined | unspecified | tbd
  | (?: none | nothing | not | no )
    (?: \ (?: was | were | is | are | yet | explicitly | clearly | relevant | new ) )*
    \ (?: mentioned | found | stated | given | provided | known | specified | extracted | shared | disclosed
        | applicable | available )
    {where}
  | (?: there \ (?: is | are | was | were ) \ )?
    no (?: \ (?: new | other | more | further | relevant | specific | personal | explicit | user | profile | useful
               | additional ) ){{0,3}}
    \ (?: information | info | data | details? | facts? | preferences? | keywords?
        | evidence | mention )
    (?: \ (?: about | on ) \ the \ user )?
    (?: \ (?: was | were | is | are | has \ been | have \ been ) )?
    (?: \ (?: available | provided | given | found | mentioned | specified | stated | known | shared ) )?
    {where}
  | (?: the \ )? user \ (?: did \ not | didn't | has \ not | hasn't )
    \ (?: mention | specify | provide | state | share ) (?: ed | d )?
    (?: \ (?: any | anything | their | his | her | a | new | personal | relevant | further | information | details
            | facts | data | about | themselves ) )*
    {where}
""".format(where=r"(?: \ (?: in | by | from ) \ the \ (?: conversation | messages? | chat | text | notes? | user ) )?")

_CHINESE: Final = r"""
    无 | 没有 | 暂无 | 未知 | 不详 | 不明 | 未找到 | 没有找到
  | {who} (?: 没有 | 并?未 | 尚未 | 无 ) (?: 明确 | 具体 )* (?: 提及 | 提到 ) [\u4e00-\u9fff]{{0,8}}
  | {who} (?: 没有 | 并?未 | 尚未 | 无 ) (?: 明确 | 具体 )* (?: 提供 | 说明 )
    (?: 任何 | 相关 | 具体 | 个人 | 更多 | 的 )* (?: 信息 | 内容 | 资料 | 情况 )?
  | {who} (?: 没有 | 暂无 | 无 ) (?: 任何 | 相关 | 新的? | 更多 | 有用 | 有效 | 可用 | 个人 | 用户 | 的 )*
    (?: 信息 | 内容 | 资料 | 数据 | 事实 | 偏好 | 关键词 | 记录 )
  | {who} (?: 没有 | 暂无 | 无 ) 任何 [\u4e00-\u9fff]{{0,4}} (?: 信息 | 内容 | 资料 )
""".format(who=r"(?: 目前 | 暂时 | 该?用户 | 对话中 | 消息中 | 笔记中 )*")

_NOTHING: Final = re.compile(f"(?:{_ENGLISH}|{_CHINESE})", re.VERBOSE | re.IGNORECASE)


def is_nothing(value: str) -> bool:
    """Whether a value only says that there is none, such as ``not mentioned`` or ``暂无信息``.

    The whole value must say so: ``no allergies``, ``Norman``, ``无业`` and ``没有任何工作信息，正在求职``
    are values.
    """
    bare = value.strip().strip("()[]（）【】\"'“”").rstrip(".。!！").strip()
    return bare in _PLACEHOLDERS or _NOTHING.fullmatch(bare) is not None
