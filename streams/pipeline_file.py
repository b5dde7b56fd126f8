"""Reads the pipeline configuration, the YAML file that says what a profile may hold."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from schemas.pipeline import PipelineConfig


class PipelineFileError(Exception):
    """The file cannot be used; the message says where and why."""


def load_pipeline(path: Path | None) -> PipelineConfig:
    """Return the configuration of a file, or the defaults where there is none.

    Raises:
        PipelineFileError: when the file cannot be read, is not YAML, or has unknown keys or wrong values.
    """
    if path is None:
        return PipelineConfig()
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return msgspec.convert(content if content is not None else {}, PipelineConfig)
    except OSError as error:
        raise PipelineFileError(f"the pipeline file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PipelineFileError(f"the pipeline file {path} is not UTF-8: {error.reason}") from error
    except yaml.YAMLError as error:
        raise PipelineFileError(f"the pipeline file {path} is not YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise PipelineFileError(f"the pipeline file {path} is wrong: {error}") from error
