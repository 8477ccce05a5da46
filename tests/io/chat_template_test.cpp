// Chat templates against what the Python package transformers makes of the same conversations
// (scripts/judge_chat_templates.py writes expected.json), their files, and templates that mean harm.
#include "rlx/chat_template.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "rlx/error.h"

using namespace rlx;
using nlohmann::ordered_json;

namespace {

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The text, or the code and the message of the error.
std::string outcome(const std::string& text, const std::string& messages = "[]",
                    const ChatTemplateOptions& options = {}) {
  try {
    return ChatTemplate::parse(text).apply_json(messages, options);
  } catch (const Error& e) {
    return std::string(name_of(e.code())) + ": " + e.what();
  }
}

std::string times(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

bool begins(const std::string& text, std::string_view with) {
  CAPTURE(text);
  CAPTURE(with);
  const bool does = text.starts_with(with);
  CHECK(does);
  return does;
}

/// Where RLX was built without the engine there is one thing to test: that it says so.
bool has_engine() {
  if (has_chat_templates()) return true;
  begins(outcome("x"), "unsupported: this RLX was built without chat templates");
  MESSAGE("skipped: this RLX was built without chat templates");
  return false;
}

std::filesystem::path fresh_folder(const std::string& name) {
  auto folder = std::filesystem::temp_directory_path() / ("rlx_chat_template_" + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace

TEST_CASE("chat templates give what transformers gives, byte for byte") {
  if (!has_engine()) return;
  const auto recorded = ordered_json::parse(std::ifstream("tests/io/chat_templates/expected.json"));
  std::tm now{};
  now.tm_year = recorded["now"][0].get<int>() - 1900;
  now.tm_mon = recorded["now"][1].get<int>() - 1;
  now.tm_mday = recorded["now"][2];
  now.tm_hour = recorded["now"][3];
  now.tm_min = recorded["now"][4];
  now.tm_sec = recorded["now"][5];
  size_t texts = 0, refusals = 0;
  for (const auto& item : recorded["expected"].items()) {
    const std::string name = item.key();
    const auto& wanted = item.value();
    CAPTURE(name);
    const auto chat = ChatTemplate::parse(file_text("tests/io/chat_templates/" + name), name);
    size_t at = 0;
    for (const auto& pair : recorded["conversations"].items())
      for (bool prompt : {false, true}) {
        const std::string title = pair.key();
        const auto& conversation = pair.value();
        CAPTURE(title);
        CAPTURE(prompt);
        ChatTemplateOptions options{.add_generation_prompt = prompt,
                                    .bos_token = recorded["bos_token"],
                                    .eos_token = recorded["eos_token"],
                                    .now = now};
        auto variables = conversation;
        variables.erase("messages");
        if (variables.contains("tools")) options.tools = variables["tools"].dump(), variables.erase("tools");
        if (variables.contains("documents"))
          options.documents = variables["documents"].dump(), variables.erase("documents");
        options.variables = variables.dump();
        const ordered_json& text = wanted[at++];
        if (text.is_null()) {
          ++refusals;
          CHECK_THROWS_AS(chat.apply_json(conversation["messages"].dump(), options), Error);
        } else {
          ++texts;
          CHECK(chat.apply_json(conversation["messages"].dump(), options) == text.get<std::string>());
        }
      }
  }
  CHECK(texts >= 150);
  CHECK(refusals >= 10);
}

TEST_CASE("filters, tests and methods give what they give in transformers, or refuse") {
  if (!has_engine()) return;
  const auto recorded = ordered_json::parse(file_text("tests/io/chat_templates/expected.json"));
  ChatTemplateOptions options;
  options.bos_token = recorded["bos_token"], options.eos_token = recorded["eos_token"];
  // src/io/jinja/README.md tells of these: tuples and ranges print as lists, macros have neither varargs nor kwargs,
  // and sequence and number tests know no numbers that are bools.
  const std::vector<std::string_view> differ = {"{{ (1,2) }}",        "|dictsort",      "|groupby('k') }}",
                                                ".partition('b') }}", "{{ range(3) }}", "varargs",
                                                "| items | list",     "sameas true",    "'abc'.partition('b') }}"};
  size_t equal = 0, refused = 0, known = 0;
  for (const auto& each : recorded["one_line"]) {
    const std::string line = each["template"];
    CAPTURE(line);
    std::string got;
    bool is_text = true;
    try {
      got = ChatTemplate::parse(line).apply({}, options);
    } catch (const Error& error) {
      is_text = false;
      CHECK(error.code() != ErrorCode::internal);
    }
    if (is_text == !each["text"].is_null() && (!is_text || got == each["text"].get<std::string>())) {
      ++equal;
      continue;
    }
    if (!is_text) {
      ++refused;
      continue;
    }
    CAPTURE(got);
    const bool is_known = std::any_of(differ.begin(), differ.end(),
                                      [&](std::string_view part) { return line.find(part) != std::string::npos; });
    CHECK(is_known);
    known += is_known;
  }
  MESSAGE(equal, " equal, ", refused, " refused here alone, ", known, " known to differ");
  CHECK(equal >= 85);
  CHECK(refused <= 31);
}

TEST_CASE("messages of structs are those of JSON") {
  if (!has_engine()) return;
  const auto chat = ChatTemplate::parse("{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}");
  CHECK(chat.apply({{"user", "a \"b\"\n\\ é"}, {"assistant", ""}}) == "user=a \"b\"\n\\ é;assistant=;");
  CHECK(chat.apply({}) == "");
  CHECK(chat.apply({{"user", "bad \xff byte"}}) == "user=bad \xef\xbf\xbd byte;");
}

TEST_CASE("chat templates are found in the files of a model, with its tokens") {
  if (!has_engine()) return;
  const auto folder = fresh_folder("files");
  auto write = [&](const char* name, const std::string& text) { std::ofstream(folder / name) << text; };
  CHECK_THROWS_WITH_AS(ChatTemplate::load((folder / "none").string()), doctest::Contains("there is no file or folder"),
                       Error);
  CHECK_THROWS_WITH_AS(ChatTemplate::load(folder.string()), doctest::Contains("it has none"), Error);
  write("tokenizer_config.json",
        R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": "config"})");
  auto chat = ChatTemplate::load(folder.string());
  CHECK(chat.apply({}) == "config");
  CHECK(chat.bos_token() == "<s>");
  CHECK(chat.eos_token() == "</s>");
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "rag", "template": "1"}, {"name": "default", "template": "2"}]})");
  CHECK(ChatTemplate::load((folder / "tokenizer_config.json").string()).apply({}) == "2");
  write("chat_template.jinja", "file {{ bos_token }}");
  CHECK(ChatTemplate::load(folder.string()).apply({}, {.bos_token = "B"}) == "file B");
  write("chat_template.jinja", "a\n{% if %}");
  CHECK_THROWS_WITH_AS(ChatTemplate::load(folder.string()),
                       doctest::Contains("the template of chat_template.jinja: line 2"), Error);

  const GgufMetadata metadata = {{"tokenizer.chat_template", std::string("{{ bos_token }}|{{ eos_token }}")},
                                 {"tokenizer.ggml.tokens", GgufArray{std::vector<std::string>{"a", "b", "c"}}},
                                 {"tokenizer.ggml.bos_token_id", uint32_t{1}},
                                 {"tokenizer.ggml.eos_token_id", uint32_t{2}}};
  CHECK(ChatTemplate::from_gguf(metadata)->apply({}) == "b|c");
  CHECK(!ChatTemplate::from_gguf({}));
  CHECK_THROWS_AS(ChatTemplate::from_gguf({{"tokenizer.chat_template", uint32_t{1}}}), Error);
}

TEST_CASE("what is wrong with a chat template or its messages is said") {
  if (!has_engine()) return;
  begins(outcome("a\n{{ 1 + }}"), "parse error: the chat template: line 2");
  begins(outcome("{% include 'x' %}"),
         "parse error: the chat template: 'include' is not for chat templates, in line 1");
  begins(outcome("{{ raise_exception('no ' ~ 1) }}"),
         "invalid argument: the chat template refuses the conversation: no 1");
  begins(outcome("\n{{ none + 1 }}"),
         "invalid argument: the chat template, line 2: unsupported operand types for +: 'NoneType' and 'int'");
  begins(outcome("{{ x|nothing }}"), "invalid argument: the chat template, line 1: unknown filter");
  begins(outcome("{{ [].append(1) }}"),
         "invalid argument: the chat template, line 1: unknown method: 'list' has no method 'append'");
  begins(outcome("x", "{}"), "parse error: they are an object of 0 members; wanted is an array");
  begins(outcome("x", "[], \"tools\": 1"), "parse error: ");
  begins(outcome("x", times("[", 150) + times("]", 150)),
         "invalid argument: the chat template, the variables are no JSON: recursion limit");
  begins(outcome("x", "[]", {.variables = "{\"a\": 1} {"}), "parse error: ");
  CHECK(outcome("{{ a }}{{ tools }}", "[]", {.variables = " { \"a\" : {\"b\": 1} } "}) == "{'b': 1}None");
  begins(outcome(std::string("\xff")), "parse error: the chat template: the template is not UTF-8 at byte 0");
  begins(outcome(times("x", (1 << 20) + 1)), "unsupported: the chat template has 1048577 bytes");
}

TEST_CASE("chat templates that mean harm end within their limits") {
  if (!has_engine()) return;
  const std::string grow =
      "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(150) %}{% set n.x = [n.x, n.x] %}"
      "{% set n.y = [n.y, n.y] %}{% endfor %}";
  const std::string text = "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}";
  const ChatTemplateOptions small{.most_steps = 2'000'000, .most_bytes = 1 << 24};
  for (const std::string& each : std::vector<std::string>{
           "{{ 'a' * 10**9 }}",
           "{{ [1] * 10**9 }}",
           "{{ 'a'.center(10**12) }}",
           "{{ [1]|tojson(indent=10**9) }}",
           "{{ 'a\nb'|indent(10**9) }}",
           "{{ [0]|batch(10**12, 1) }}",
           "{% set x = [" + times("'a' * 100000000,", 500) + "] %}",
           "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
           "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
           "{% for i in range(99999) %}" + times("x", 10000) + "{% endfor %}",
           "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
           "{% set x = 'a' * 100000 %}{{ x|replace('a', x) }}",
           "{% set x = 'a' * 100000 %}{{ x.replace('', x) }}",
           text + "{{ 'b' in x }}{% endfor %}",
           text + "{{ x|length }}{% endfor %}",
           text + "{{ x[99] }}{% endfor %}",
           text + "{{ x is eq(x ~ '') }}{% endfor %}",
           text + "{% for c in x %}{% break %}{% endfor %}{% endfor %}",
           text + "{{ {x: 1}[x] }}{% endfor %}",
           text + "{% set y = x.split('a') %}{% endfor %}",
           grow + "{{ n.x }}",
           grow + "{{ n.x == n.y }}",
           grow + "{{ n.x in [n.y] }}",
           grow + "{{ n.x|tojson }}",
           grow + "{{ n.x|upper }}",
           grow + "{{ '%s' % n.x }}",
           grow + "{{ '{}'.format(n.x) }}",
           grow + "{{ [n.x, n.y]|sort }}",
           grow + "{{ [n.x]|select('eq', n.y)|list }}",
           grow + "{{ [n.x]|join }}",
           grow + "{{ n.x ~ '' }}"})
    begins(outcome(each, "[]", small), "out of memory: the chat template, line ");
  for (const std::string& each : std::vector<std::string>{
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
           "{% for i in range(10**12) %}{% endfor %}", "{{ 10**10**10 }}", "{{ '%1000000000d' % 5 }}",
           "{{ '{:>1000000000}'.format(1) }}", "{{ '%*d' % (1000000000, 5) }}",
           "{% set n = namespace() %}{% set n.x = n %}", "{{ [namespace()] }}", "{{ namespace()|list }}",
           "{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor %}"})
    begins(outcome(each, "[]", small), "invalid argument: the chat template, line 1");
  for (const std::string& each : std::vector<std::string>{
           "{{ " + times("(", 50000) + "1" + times(")", 50000) + " }}",
           "{{ " + times("[", 50000) + times("]", 50000) + " }}", "{{ " + times("1 + ", 100000) + "1 }}",
           "{{ 1" + times("|abs", 100000) + " }}", "{{ x" + times(".a", 100000) + " }}",
           "{{ x" + times("()", 100000) + " }}", "{{ " + times("not ", 50000) + "1 }}",
           "{{ " + times("-", 50000) + "1 }}", times("{% if 1 %}", 20000) + times("{% endif %}", 20000),
           times("{% for x in [1] %}", 20000), "{{ " + times("1 if 1 else ", 50000) + "2 }}"})
    begins(outcome(each, "[]", small), "parse error: the chat template: ");
  CHECK(outcome("{{ " + times("1 + ", 2000) + "1 }}") == "2001");
  CHECK(outcome("{% if 0 %}" + times("{% elif 0 %}", 80000) + "x{% endif %}") == "");
}
