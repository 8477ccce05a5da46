#!/usr/bin/env python3
"""Holds chat templates against the Python package transformers, byte for byte.

    scripts/judge_chat_templates.py FOLDER      # of *.jinja files, such as models/templates of llama.cpp's sources
    scripts/judge_chat_templates.py --write     # writes tests/io/chat_templates/expected.json for the templates beside it,
                                                # and for each line of one_line.txt, a template of its own

Each template is applied to the conversations below with and without a generation prompt by both; equal are two equal
texts, or two refusals. Needs `pip install jinja2 transformers` and, but for --write, an RLX that was built (PYTHONPATH and
RLX_LIBRARY). The texts of a folder's templates are not kept: they are their makers'.
"""

import argparse
import collections
import datetime
import json
import pathlib
import sys

from transformers.utils import chat_template_utils as theirs

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS = ROOT / "tests/io/chat_templates"
NOW = datetime.datetime(2026, 2, 3, 16, 5, 9)

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a place.",
        "parameters": {"type": "object", "properties": {
            "place": {"type": "string", "description": "A city, \"Zürich\" for one"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer", "minimum": 1, "maximum": 1e16},
            "at": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": ["number", "null"]}},
                                              "required": ["x"]}}},
            "required": ["place"]},
        "return": {"type": "string", "description": "text"}}},
    {"type": "function", "function": {"name": "nothing", "description": "Does nothing.\n<b>at all</b> & 'so' on",
                                      "parameters": {"type": "object", "properties": {}}}},
]


def call(name, arguments, id="abcdefghi"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def turns(*pairs):
    return [{"role": role, "content": content} for role, content in pairs]


ARGUMENTS = {"place": "Genève", "days": 2, "at": [{"x": 0.5, "y": None}, {"x": -1e-7}], "exact": True}
CONVERSATIONS = {
    "one": (turns(("user", "Hello.")), {}),
    "system": (turns(("system", "Be brief."), ("user", "What is 2 + 2?")), {}),
    "many": (turns(("system", "Be brief."), ("user", " Hi \n"), ("assistant", " Hello! \n\n"), ("user", "And?"), ("assistant", "So."), ("user", "End")), {}),
    "empty": (turns(("system", ""), ("user", ""), ("assistant", ""), ("user", " ")), {}),
    "unicode": (turns(("user", "Zürich 😀 \"quoted\" 'single' <tag> & \\ \t end\u2028\u00a0"), ("assistant", "שלום 你好"), ("user", "ok\r\nthen")), {}),
    "ends with assistant": (turns(("user", "Count."), ("assistant", "One, two")), {}),
    "thinking text": (turns(("user", "Why?"), ("assistant", "<think>\nBecause.\n</think>\n\nSo it is."), ("user", "Really?"),
                            ("assistant", "<think>Sure</think>Yes."), ("user", "Good.")), {}),
    "reasoning": ([{"role": "user", "content": "Why?"}, {"role": "assistant", "reasoning_content": "Because.", "content": "So it is."},
                   {"role": "user", "content": "Good."}], {}),
    "no thinking": (turns(("user", "Why?")), {"enable_thinking": False}),
    "thinking on": (turns(("system", "Be brief."), ("user", "Why?")), {"enable_thinking": True, "reasoning_effort": "high", "thinking": True}),
    "parts": ([{"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image"}, {"type": "text", "text": "and say."}]},
               {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]}, {"role": "user", "content": [{"type": "text", "text": "Sure?"}]}], {}),
    "tools": (turns(("user", "What's the weather?")), {"tools": TOOLS}),
    "tools with system": (turns(("system", "Use tools."), ("user", "What's the weather?")), {"tools": TOOLS}),
    "call": ([{"role": "user", "content": "Weather in Geneva?"},
              {"role": "assistant", "content": "", "tool_calls": [call("get_weather", ARGUMENTS)]},
              {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefghi", "content": "{\"temperature\": 21.5}"},
              {"role": "assistant", "content": "It is 21.5 °C."}, {"role": "user", "content": "Thanks."}], {"tools": TOOLS}),
    "call without content": ([{"role": "user", "content": "Weather in Geneva?"},
                              {"role": "assistant", "content": None, "tool_calls": [call("get_weather", ARGUMENTS), call("nothing", {}, "bcdefghij")]},
                              {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefghi", "content": "21"},
                              {"role": "tool", "name": "nothing", "tool_call_id": "bcdefghij", "content": "done"}], {"tools": TOOLS}),
    "call in text": ([{"role": "user", "content": "Weather?"},
                      {"role": "assistant", "content": "I look.", "tool_calls": [call("get_weather", json.dumps(ARGUMENTS))]},
                      {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefghi", "content": "21"}], {"tools": TOOLS}),
    "call with reasoning": ([{"role": "user", "content": "Weather?"},
                             {"role": "assistant", "content": "", "reasoning_content": "I should look.\n", "tool_calls": [call("get_weather", {"place": "x"})]},
                             {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefghi", "content": "21"},
                             {"role": "assistant", "content": "21."}, {"role": "user", "content": "More?"}], {"tools": TOOLS}),
    "wrong order": (turns(("assistant", "I begin."), ("assistant", "Again."), ("user", "Well.")), {}),
    "unknown role": (turns(("user", "Hi"), ("critic", "No.")), {}),
    "documents": (turns(("user", "What do they say?")), {"documents": [{"title": "One", "text": "The first."}, {"title": "Two", "text": "The <second>."}]}),
    "none": ([], {}),
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def expected(template, messages, more, prompt):
    """What transformers makes; None if it refuses."""
    theirs.datetime = Clock
    more = dict(more)
    try:
        chat = theirs._normalize_chat_messages(messages)
        made, _ = theirs.render_jinja_template([chat], tools=more.pop("tools", None), documents=more.pop("documents", None),
                                               chat_template=template, add_generation_prompt=prompt, **TOKENS, **more)
        return made[0]
    except Exception as error:  # whatever Jinja or the template raises
        expected.why = f"{type(error).__name__}: {error}"
        return None


def cases():
    for name, (messages, more) in CONVERSATIONS.items():
        for prompt in (False, True):
            yield name, messages, more, prompt


def write():
    made = {"now": [*NOW.timetuple()[:6]], **TOKENS, "conversations": {}, "expected": {}}
    for name, (messages, more) in CONVERSATIONS.items():
        made["conversations"][name] = {"messages": messages, **more}
    for path in sorted(OURS.glob("*.jinja")):
        template = path.read_text()
        texts = [expected(template, messages, more, prompt) for _, messages, more, prompt in cases()]
        made["expected"][path.name] = texts
        print(f"{path.name}: {sum(t is not None for t in texts)} texts, {texts.count(None)} refusals")
    lines = (OURS / "one_line.txt").read_text().splitlines()
    made["one_line"] = [{"template": line, "text": expected(line, [], {}, False)} for line in lines]
    print(f"one_line.txt: {sum(each['text'] is not None for each in made['one_line'])} texts of {len(lines)}")
    (OURS / "expected.json").write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n")


def compare(folder, shown):
    import rlx

    equal_templates = equal = total = both_refuse = 0
    kinds = collections.Counter()
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        template = path.read_text()
        try:
            ours, why = rlx.models.ChatTemplate.from_text(template), ""
        except rlx.Error as error:
            ours, why = None, str(error)
        wrong = []
        for name, messages, more, prompt in cases():
            want = expected(template, messages, more, prompt)
            got, said = None, why
            if ours:
                try:
                    got = ours.apply(messages, add_generation_prompt=prompt, now=NOW, **TOKENS, **more)
                except rlx.Error as error:
                    said = str(error)
            total += 1
            equal += want == got
            both_refuse += want is None and got is None
            if want != got:
                wrong.append((name, prompt, want, got, said if got is None else expected.why if want is None else ""))
        equal_templates += not wrong
        if wrong:
            name, prompt, want, got, said = wrong[0]
            kinds["ours refuses" if got is None else "theirs refuses" if want is None else "texts differ"] += 1
            print(f"{path.name}: {len(wrong)} differ; '{name}', prompt {prompt}: {said}")
            if want is not None and got is not None:
                at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
                print(f"    at {at}: theirs {want[max(0, at - shown):at + shown]!r}\n    ours {got[max(0, at - shown):at + shown]!r}")
    count = len(list(pathlib.Path(folder).glob("*.jinja")))
    print(f"{equal_templates} of {count} templates equal in all of their {total // max(1, count)} cases; {equal} of {total} cases, "
          f"of which both refuse {both_refuse}; first differences: {dict(kinds)}")
    return equal_templates == count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--shown", type=int, default=40, help="characters shown on both sides of a difference")
    options = parser.parse_args()
    if options.write:
        write()
    elif options.folder:
        sys.exit(0 if compare(options.folder, options.shown) else 1)
    else:
        parser.error("a folder, or --write")


if __name__ == "__main__":
    main()
