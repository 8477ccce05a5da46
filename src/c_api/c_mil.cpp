// Programs of Core ML, op by op, through the C ABI; see rlx/c.h. A value is its place among all that the program made.
#include <algorithm>

#include "c_api/handles.h"
#include "rlx/mil_builder.h"

struct rlx_mil {
  rlx::MilBuilder builder;
  std::vector<rlx::MilValue> values = {};
  rlx::MilArguments arguments = {};  // of the op that is added next
  std::vector<rlx::Type> types = {};
};

namespace rlx::c {

namespace {

std::string text_if(const char* text) { return text ? text : ""; }

const MilValue& value_of(const rlx_mil& mil, int32_t value) {
  if (value < 0 || static_cast<size_t>(value) >= mil.values.size())
    fail(ErrorCode::invalid_argument, "there is no value ", value, "; the program has ", mil.values.size());
  return mil.values[static_cast<size_t>(value)];
}
std::vector<MilValue> values_of(const rlx_mil& mil, const int32_t* values, size_t count) {
  std::vector<MilValue> all;
  for (int32_t value : array_from(values, count, "values")) all.push_back(value_of(mil, value));
  return all;
}
/// The place of the first of these values, which are kept; -1 of none.
int32_t kept(rlx_mil& mil, const std::vector<MilValue>& made) {
  if (made.empty()) return -1;
  const auto first = static_cast<int32_t>(mil.values.size());
  mil.values.insert(mil.values.end(), made.begin(), made.end());
  return first;
}
std::vector<Type> types_from(const std::string& text) {
  std::vector<Type> types;
  Scanner in(text);
  do parse(in, types.emplace_back());
  while (in.accept(";"));
  if (!in.at_end()) in.unexpected("the end of the types");
  return types;
}
std::optional<PackageImage::Color> color_from(const char* text) {
  const std::string color = text_if(text);
  if (color.empty()) return std::nullopt;
  if (color == "rgb") return PackageImage::Color::rgb;
  if (color == "bgr") return PackageImage::Color::bgr;
  if (color == "grayscale" || color == "gray") return PackageImage::Color::grayscale;
  fail(ErrorCode::invalid_argument, "an image is rgb, bgr or grayscale, not '", color, "'");
}
rlx_status set_argument(rlx_mil* mil, const char* parameter, rlx_error** error,
                        const std::function<MilArgument(const rlx_mil&)>& argument) {
  return guarded(error, [&] {
    auto& to = required(mil, "mil");
    to.arguments.emplace_back(required_text(parameter, "parameter"), argument(to));
  });
}

}  // namespace
}  // namespace rlx::c

using namespace rlx::c;
using rlx::MilArgument;

extern "C" {

rlx_status rlx_mil_create(const rlx_mil_options* options, rlx_mil** mil, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(mil, "mil");
    auto given = options_of(options);
    rlx::MilOptions o;
    o.minimum_ios = given.minimum_ios;
    o.description = text_if(given.description), o.author = text_if(given.author);
    o.version = text_if(given.version), o.license = text_if(given.license);
    result = new rlx_mil{rlx::MilBuilder(std::move(o))};
  });
}
rlx_status rlx_mil_function(rlx_mil* mil, const char* name, rlx_error** error) {
  return guarded(error, [&] { required(mil, "mil").builder.function(required_text(name, "name")); });
}
rlx_status rlx_mil_input(rlx_mil* mil, const char* name, const char* type, const char* shapes, const char* image,
                         int32_t* value, rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    auto& result = required(value, "value");
    const std::string called = required_text(name, "name");
    rlx::MilInput options;
    options.sizes = rlx::package_shapes(text_if(shapes));
    options.image = color_from(image);
    result = kept(m, {m.builder.input(called, type_from(type), options)});
  });
}
rlx_status rlx_mil_state(rlx_mil* mil, const char* name, const char* type, int32_t* value, rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    auto& result = required(value, "value");
    const std::string called = required_text(name, "name");
    result = kept(m, {m.builder.state(called, type_from(type))});
  });
}
rlx_status rlx_mil_constant(rlx_mil* mil, const rlx_tensor* tensor, const char* name, int32_t* value,
                            rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    auto& result = required(value, "value");
    result = kept(m, {m.builder.constant(required(tensor, "tensor").tensor, text_if(name))});
  });
}
rlx_status rlx_mil_set_values(rlx_mil* mil, const char* parameter, const int32_t* values, size_t count,
                              rlx_error** error) {
  return set_argument(mil, parameter, error,
                      [&](const rlx_mil& m) { return MilArgument(values_of(m, values, count)); });
}
rlx_status rlx_mil_set_tensor(rlx_mil* mil, const char* parameter, const rlx_tensor* tensor, rlx_error** error) {
  return set_argument(mil, parameter, error,
                      [&](const rlx_mil&) { return MilArgument(required(tensor, "tensor").tensor); });
}
rlx_status rlx_mil_set_number(rlx_mil* mil, const char* parameter, double number, rlx_error** error) {
  return set_argument(mil, parameter, error, [&](const rlx_mil&) { return MilArgument(number); });
}
rlx_status rlx_mil_set_integer(rlx_mil* mil, const char* parameter, int64_t integer, rlx_error** error) {
  return set_argument(mil, parameter, error, [&](const rlx_mil&) { return MilArgument(integer); });
}
rlx_status rlx_mil_set_integers(rlx_mil* mil, const char* parameter, const int64_t* integers, size_t count,
                                rlx_error** error) {
  return set_argument(mil, parameter, error, [&](const rlx_mil&) {
    auto all = array_from(integers, count, "integers");
    return MilArgument(std::vector<int64_t>(all.begin(), all.end()));
  });
}
rlx_status rlx_mil_set_flag(rlx_mil* mil, const char* parameter, int flag, rlx_error** error) {
  return set_argument(mil, parameter, error, [&](const rlx_mil&) { return MilArgument(flag != 0); });
}
rlx_status rlx_mil_set_text(rlx_mil* mil, const char* parameter, const char* text, rlx_error** error) {
  return set_argument(mil, parameter, error, [&](const rlx_mil&) { return MilArgument(required_text(text, "text")); });
}
rlx_status rlx_mil_set_texts(rlx_mil* mil, const char* parameter, const char* const* texts, size_t count,
                             rlx_error** error) {
  return set_argument(mil, parameter, error, [&](const rlx_mil&) {
    std::vector<std::string> all;
    for (const char* each : array_from(texts, count, "texts")) all.push_back(required_text(each, "a text"));
    return MilArgument(std::move(all));
  });
}
rlx_status rlx_mil_set_types(rlx_mil* mil, const char* types, rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    m.types = types ? types_from(types) : std::vector<rlx::Type>();
  });
}
rlx_status rlx_mil_op(rlx_mil* mil, const char* op, const char* name, int32_t* first, size_t* count,
                      rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    const std::string type = required_text(op, "op");
    const rlx::MilArguments arguments = std::move(m.arguments);
    const std::vector<rlx::Type> types = std::move(m.types);
    m.arguments.clear(), m.types.clear();
    const auto made = m.builder.op_many(type, arguments, text_if(name), types);
    const int32_t place = kept(m, made);
    if (first) *first = place;
    if (count) *count = made.size();
  });
}
rlx_status rlx_mil_begin_cond(rlx_mil* mil, int32_t pred, const char* name, rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    m.builder.begin_cond(value_of(m, pred), text_if(name));
  });
}
rlx_status rlx_mil_begin_else(rlx_mil* mil, const int32_t* values, size_t count, rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    m.builder.begin_else(values_of(m, values, count));
  });
}
rlx_status rlx_mil_end_cond(rlx_mil* mil, const int32_t* values, size_t count, int32_t* first, rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    auto& result = required(first, "first");
    result = kept(m, m.builder.end_cond(values_of(m, values, count)));
  });
}
rlx_status rlx_mil_begin_while(rlx_mil* mil, const int32_t* values, size_t count, const char* name, int32_t* first,
                               rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    auto& result = required(first, "first");
    const std::vector<rlx::MilValue> vars = values_of(m, values, count);
    const std::vector<rlx::Type> types = std::move(m.types);
    m.types.clear();
    result = kept(m, m.builder.begin_while(vars, text_if(name), types));
  });
}
rlx_status rlx_mil_begin_body(rlx_mil* mil, int32_t condition, int32_t* first, rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    auto& result = required(first, "first");
    result = kept(m, m.builder.begin_body(value_of(m, condition)));
  });
}
rlx_status rlx_mil_end_while(rlx_mil* mil, const int32_t* values, size_t count, int32_t* first, rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    auto& result = required(first, "first");
    result = kept(m, m.builder.end_while(values_of(m, values, count)));
  });
}
rlx_status rlx_mil_abandon(rlx_mil* mil, rlx_error** error) {
  return guarded(error, [&] { required(mil, "mil").builder.abandon(); });
}
rlx_status rlx_mil_output(rlx_mil* mil, int32_t value, const char* name, rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(mil, "mil");
    m.builder.output(value_of(m, value), text_if(name));
  });
}
rlx_status rlx_mil_type(const rlx_mil* mil, int32_t value, char* buffer, size_t room, size_t* size, rlx_error** error) {
  return guarded(error, [&] {
    const rlx::MilValue& v = value_of(required(mil, "mil"), value);
    write_text(v.is_tensor() ? rlx::text_of(v.type()) : v.type_text(), buffer, room, size);
  });
}
const char* rlx_mil_name(const rlx_mil* mil, int32_t value) {
  if (!mil || value < 0 || static_cast<size_t>(value) >= mil->values.size()) return nullptr;
  return mil->values[static_cast<size_t>(value)].name().c_str();
}
rlx_status rlx_mil_write(const rlx_mil* mil, const char* path, char** report, rlx_error** error) {
  return guarded(error, [&] {
    const rlx::MilReport made = required(mil, "mil").builder.write(required_text(path, "path"));
    if (report)
      *report = own_text(
          rlx::text_of("{\"minimum_ios\": ", made.minimum_ios, ", \"needed_by\": ", rlx::json_quoted(made.needed_by),
                       ", \"model_bytes\": ", made.model_bytes, ", \"weight_bytes\": ", made.weight_bytes, "}"));
  });
}
rlx_status rlx_mil_load(const rlx_mil* mil, const rlx_coreml_options* options, rlx_coreml** model, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(model, "model");
    result = new rlx_coreml{required(mil, "mil").builder.load(coreml_options_from(options))};
  });
}
rlx_status rlx_mil_signature(const char* op, int ios, char** text, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(text, "text");
    result = own_text(rlx::mil_signature(required_text(op, "op"), ios));
  });
}
void rlx_mil_free(rlx_mil* mil) { delete mil; }

}  // extern "C"
