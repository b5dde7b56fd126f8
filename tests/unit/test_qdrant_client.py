"""`sinks.vectors.qdrant`: the client's models are built when they are used, and only they."""

from __future__ import annotations

import subprocess
import sys

from pydantic import BaseModel

FIRST_IMPORT = """
import inspect
from pydantic import BaseModel
before = BaseModel.__dict__["model_rebuild"]
from sinks.vectors.qdrant import MODELS, models
assert BaseModel.__dict__["model_rebuild"] is before
known = [one for _, one in inspect.getmembers(models, inspect.isclass)
         if one.__module__ == MODELS and issubclass(one, BaseModel)]
print(len(known), sum(one.__pydantic_complete__ for one in known))
near = models.FieldCondition(key="version", range=models.Range(lte=3))
print(models.Filter(must=[near, models.HasIdCondition(has_id=[1])]).model_dump_json(exclude_none=True))
for one in known:
    one.model_rebuild()
print(sum(one.__pydantic_complete__ for one in known))
"""


class Later(BaseModel):
    """Another's model, whose field is known only after it."""

    field: Defined


class Defined(BaseModel):
    """The field."""


def test_models_are_built_when_they_are_used_and_all_can_be() -> None:
    said = subprocess.run([sys.executable, "-c", FIRST_IMPORT], capture_output=True, text=True, check=True)
    counts, dumped, built = said.stdout.splitlines()
    known, complete = map(int, counts.split())
    assert known > 300
    assert complete < known / 2
    assert dumped == '{"must":[{"key":"version","range":{"lte":3.0}},{"has_id":[1]}]}'
    assert int(built) == known


def test_models_of_others_are_built_as_ever() -> None:
    assert Later.model_rebuild() is True
    assert Later(field=Defined()).field == Defined()
