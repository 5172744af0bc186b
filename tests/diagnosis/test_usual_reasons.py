"""What usually is behind an exception that no entry knows, by its own words."""

from __future__ import annotations

import re

import pytest

from ddpkit.diagnosis.answer import BY_CLASS
from ddpkit.diagnosis.catalogue import load
from ddpkit.diagnosis.catalogue.entry import OWN
from ddpkit.diagnosis.decide import analyze_log
from ddpkit.diagnosis.symptoms import Symptom, find_symptom

ROWS = [Symptom(*row) for check in (OWN, BY_CLASS) for row in load().checks[check]]
# One line for each row, as Python, torch and their packages print it.
PRINTED = (
    "KeyError: Required environment variable 'SLURM_NTASKS' not set",
    "ValueError: Number of processes must be at least 1",
    "OSError: [Errno 28] inotify watch limit reached",
    "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://api.example.com/v1/models",
    "requests.exceptions.HTTPError: 500 Server Error: Internal Server Error for url: http://localhost:8000/generate",
    "redis.exceptions.ConnectionError: Error 111 connecting to localhost:6379. Connection refused.",
    "grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:",
    "TypeError: forward() got an unexpected keyword argument 'labels'",
    "TypeError: __init__() missing 1 required positional argument: 'device_ids'",
    "TypeError: training_step() takes 3 positional arguments but 4 were given",
    "TypeError: 'NoneType' object is not callable",
    "TypeError: unsupported operand type(s) for +: 'NoneType' and 'str'",
    "TypeError: Object of type float32 is not JSON serializable",
    "TypeError: str expected, not int",
    "TypeError: 'str' object is not callable",
    'TypeError: can only concatenate str (not "int") to str',
    "ValueError: invalid literal for int() with base 10: ''",
    "ValueError: only one element tensors can be converted to Python scalars",
    "ValueError: could not convert string to float: 'x'",
    "ValueError: too many values to unpack (expected 2)",
    "ValueError: fp16 mixed precision requires a GPU",
    "AssertionError: There is no training data",
    "AssertionError: no sync context manager is incompatible with gradient partitioning logic of ZeRO stage 2",
    "ValueError: Unsupported strategy: ddp_sharded",
    "KeyError: 'state_dict'",
    "KeyError: 0",
    "KeyError: None",
    "KeyError: 'cxx'",
    "UnicodeDecodeError: 'gbk' codec can't decode byte 0x80 in position 205: illegal multibyte sequence",
    "ValueError: Object arrays cannot be loaded when allow_pickle=False",
    "pandas.errors.ParserError: Error tokenizing data. C error: Expected 1 fields in line 5, saw 3",
    "ImportError: DLL load failed: %1 is not a valid Win32 application.",
    "TypeError: Cannot handle this data type",
    "Exception: expected value at line 1 column 1",
    "AttributeError: 'AdaptiveAvgPool2d' object has no attribute 'total_ops'",
    "AttributeError: 'TaxiBJTrainer' object has no attribute 'seek'",
    "ValueError: not enough values to unpack (expected 3, got 0)",
    "TypeError: conv2d() received an invalid combination of arguments - got (Tensor, Parameter, NoneType, tuple)",
    "IndexError: index 129600 is out of bounds for axis 0 with size 129600",
    "IndexError: Invalid key: 0 is out of bounds for size 0",
    "AssertionError",
    "TypeError: list indices must be integers or slices, not str",
    "KeyError: 'train/0661_c5s2.jpg'",
    "TypeError: forward() missing 1 required positional argument: 'x'",
    "IndexError: dimension specified as 0 but tensor has no dimensions",
    "IndexError: list index out of range",
    "IndexError: tuple index out of range",
    "ZeroDivisionError: division by zero",
    "StopIteration",
    "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 0: invalid start byte",
    "UnicodeEncodeError: 'ascii' codec can't encode character '\\u2588' in position 5: ordinal not in range(128)",
    "OSError: [Errno 113] No route to host",
    "socket.timeout: timed out",
    "OSError: [Errno 9] Bad file descriptor",
    "OSError: [Errno 22] Invalid argument",
    "OSError: [Errno 14] Bad address",
    "OSError: [Errno 26] Text file busy: 'x'",
    "OSError: [Errno 36] File name too long: 'xxx'",
    "OSError: [Errno 39] Directory not empty: 'x'",
    "OSError: [Errno 7] Argument list too long: 'python'",
    "BlockingIOError: [Errno 11] Unable to open file (unable to lock file, errno = 11)",
    "OSError: libcublas.so.11: symbol cublasLtGetStatusString version libcublasLt.so.11 not defined in file",
    "ImportError: DLL load failed while importing _C: The specified module could not be found.",
    "ImportError: attempted relative import with no known parent package",
    "NameError: name '_C' is not defined",
    "NameError: name 'dist' is not defined",
    "UnboundLocalError: local variable 'loss' referenced before assignment",
    "SyntaxError: future feature annotations is not defined",
    "SyntaxError: invalid syntax",
    "multiprocessing.context.AuthenticationError: digest sent was rejected",
    "concurrent.futures.process.BrokenProcessPool: A process in the pool was terminated abruptly.",
    "queue.Empty",
    "pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays",
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor",
    "argparse.ArgumentError: argument --x: conflicting option string: --x",
    "AttributeError: 'EasyDict' object has no attribute 'gpu'",
    "AttributeError: 'str' object has no attribute 'decode'",
    "AttributeError: _MultiProcessingDataLoaderIter has no attribute 'next'",
    "AttributeError: 'tuple' object has no attribute 'keys'",
    "AttributeError: 'FP16_Optimizer' object has no attribute 'x'",
    "RuntimeError: Failed to import transformers.models.llama.modeling_llama because of the following error",
    "RuntimeError: CUDA extension not compiled",
    "RuntimeError: expected a non-empty list of boxes",
    "RuntimeError: dictionary changed size during iteration",
    "RuntimeError: Event loop is closed",
    "RuntimeError: Interrupted system call",
    "RuntimeError: this mode is not supported",
    "AssertionError: Batch size should match the number of gpus",
    "AssertionError: LoRA weights not found",
    "NotImplementedError",
    "RuntimeError: Failed to locate interpreter Rscript",
    "RuntimeError: engine not initialized",
    "ValueError: x requires foo>=1.2",
    "ValueError: the shapes of image and mask differ: (32, 32) and (32, 33)",
    "AssertionError: num of args.gpus not match",
    "AttributeError: can't set attribute",
)


def test_each_reason_has_a_line_that_leads_to_it() -> None:
    """A row that an earlier one hides is never found."""
    found = {find_symptom(check, line) for line in PRINTED for check in (OWN, BY_CLASS)}
    assert {*ROWS} <= found


@pytest.mark.parametrize("line", PRINTED)
def test_it_stays_the_script_s_own_exception(line: str) -> None:
    first = analyze_log([("log", f"starting\n{line}\n")]).first
    assert first is not None
    said, _, reason = first.cause.partition(". Usual reason: ")
    assert (first.id, reason != "") == (OWN, True)
    assert line.split(":")[0] in said
    assert not re.search(r"[{}]", reason + first.fix)


_HEAD = 'Traceback (most recent call last):\n  File "/app/train.py", line 9, in main\n    go(x)\n'
_INSIDE = _HEAD + '  File "/opt/lib/python3.11/site-packages/trl/setup.py", line 4, in run\n'


@pytest.mark.parametrize(
    ("log", "whose", "has_reason", "fix"),
    [
        (_INSIDE + "    raise TypeError(\nTypeError: cannot use two\n", "a check inside trl: ", False, "change what"),
        (_INSIDE + "    return a + b\nTypeError: cannot use two\n", "raised inside trl", True, "look at /app/train.py"),
        (_HEAD + "    raise TypeError('no such mode')\nTypeError: no such mode\n", "own exception: ", False, "look at"),
        (_HEAD + "    raise KeyError(key)\nKeyError: 'size'\n", "own exception: ", True, "look at"),
        ("TypeError: To use ranks, `run` is called with a function.\n", "own exception: ", False, "change what"),
        ("TypeError: unsupported operand type(s) for +\n", "own exception: ", True, "print type"),
    ],
)
def test_the_sentence_of_a_check_is_its_own_reason(log: str, whose: str, has_reason: bool, fix: str) -> None:
    """What its class usually means was said beside it: a wrong one for most messages of frameworks."""
    first = analyze_log([("log", log)]).first
    assert first is not None
    assert whose in first.cause
    assert (". Usual reason: " in first.cause) == has_reason
    assert first.fix.startswith(fix)


def test_the_reason_of_a_chain_is_its_other_exception() -> None:
    header = "Traceback (most recent call last):\n"
    above = "The above exception was the direct cause of the following exception:"
    frame = '  File "a.py", line 1, in <module>\n'
    text = f"{header}{frame}KeyError: 'x'\n\n{above}\n\n{header}{frame}RuntimeError: cannot load\n"
    first = analyze_log([("log", text)]).first
    assert first is not None
    assert "Usual reason" not in first.cause


@pytest.mark.parametrize(
    "last",
    [
        "KeyError: 0",
        "NotImplementedError",
        "`RuntimeError: it failed`",
        "ERROR: RuntimeError: it failed",
        "E       RuntimeError: it failed",
        "queue.Empty",
        "socket.timeout: timed out",
    ],
)
def test_an_exception_ends_an_excerpt(last: str) -> None:
    """Its class alone, or with few words, or as a logger, pytest or a person quotes it."""
    first = analyze_log([("log", f"starting\n{last}\n")]).first
    assert (first and first.id) == OWN


@pytest.mark.parametrize(
    "state", ["  0%|          | 0/6931 [00:01<?, ?it/s]", "  5%|#  | 341/6931 [01:00<20:11,  5.40it/s]"]
)
def test_a_bar_that_is_shown_once_more_is_no_progress(state: str) -> None:
    """tqdm shows the last state when an exception leaves its loop. A bar that goes on shows that the run does."""
    failure = "RuntimeError: CUDA error: invalid device ordinal\n"
    first = analyze_log([("log", f"{failure}{state}\n")]).first
    assert (first and first.id) == "invalid-device-ordinal"
    on = "".join(f"  6%|#  | {341 + step}/6931 [01:{step:02d}<20:11,  5.40it/s]\n" for step in range(30))
    assert analyze_log([("log", failure + on)]).first is None
