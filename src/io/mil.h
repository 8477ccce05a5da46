// An ML Program and the description of the model around it, as the file has them: plain structures, no meaning. They
// are what mlpackage.h reads and writes; `frontends/mil` gives them a meaning, `backends/coreml` makes them.
//
// Source: coremltools, mlmodel/format/MIL.proto, Model.proto and FeatureTypes.proto.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rlx/tensor.h"

namespace rlx::mil {

/// Element types by their codes in the format; a file may hold codes that are not listed here.
enum class DataType : int32_t {
  unknown = 0,
  boolean = 1,
  string = 2,
  float16 = 10,
  float32 = 11,
  float64 = 12,
  bfloat16 = 13,
  int8 = 21,
  int16 = 22,
  int32 = 23,
  int64 = 24,
  int4 = 25,
  uint8 = 31,
  uint16 = 32,
  uint32 = 33,
  uint64 = 34,
  uint4 = 35,
  uint2 = 36,
  uint1 = 37,
  uint6 = 38,
  uint3 = 39,
  float8e4m3fn = 40,
  float8e5m2 = 41,
};
/// The dtype of the same elements; nothing for strings and unknown codes.
std::optional<DType> dtype_of(DataType);
/// DataType::unknown for a dtype that the format does not have (complex numbers, blocks of GGUF).
DataType data_type_of(DType);
/// As Apple's messages and texts spell it: "fp16", "int32", "bool".
std::string name_of(DataType);

struct Dimension {
  std::optional<int64_t> size;  ///< nothing: unknown until the program runs
  bool variadic = false;        ///< of unknown ones: any number of dims
  friend bool operator==(const Dimension&, const Dimension&) = default;
};

struct ValueType {
  enum class Kind : uint8_t { tensor, list, tuple, dictionary, state };
  Kind kind = Kind::tensor;
  DataType dtype = DataType::unknown;  ///< of a tensor
  std::vector<Dimension> dims = {};    ///< of a tensor
  std::vector<ValueType> inner =
      {};  ///< a list's element; a tuple's parts; a dictionary's key and value; a state's tensor
  std::optional<Dimension> length = {};  ///< of a list

  static ValueType tensor(DataType dtype, const Shape& shape);
  static ValueType of(const Type& type);  ///< symbolic dims are unknown ones
  /// The shape of a tensor all of whose dims are known.
  std::optional<Shape> shape() const;
  friend bool operator==(const ValueType&, const ValueType&) = default;
};
/// "fp32[2, ?, 3]", "list(int32[2])", "state(fp16[1, 8])".
std::ostream& operator<<(std::ostream&, const ValueType&);

/// Data in another file of the package: `mlpackage.h` has the tensor.
struct BlobRef {
  std::string file;  ///< "@model_path/weights/weight.bin"
  uint64_t offset;   ///< of the blob's record
};

/// A literal. Its form follows its type: a Tensor, or strings, for a tensor; values for a list or a tuple; pairs for a
/// dictionary.
struct Value {
  using Dictionary = std::vector<std::pair<Value, Value>>;
  ValueType type;
  std::variant<Tensor, std::vector<std::string>, std::vector<Value>, Dictionary, BlobRef> data = Tensor();
  std::string doc = {};

  static Value of(Tensor tensor);
  static Value of(std::string text);  ///< a scalar of strings
  static Value of(bool b) { return of(Tensor::scalar(b)); }
  /// The one string of a scalar; null for any other value.
  const std::string* text() const;
};
using Values = std::map<std::string, Value, std::less<>>;

struct NamedType {
  std::string name;
  ValueType type;
};

/// One of the values that an argument consists of: the name of an earlier result, or a literal.
using Binding = std::variant<std::string, Value>;
/// Several for a variadic parameter, else one.
using Argument = std::vector<Binding>;

struct Block;
struct Operation {
  std::string type;
  std::map<std::string, Argument, std::less<>> inputs = {};
  std::vector<NamedType> outputs = {};
  std::vector<Block> blocks;
  Values attributes = {};  ///< "name" always, "val" of a const
};

struct Block {
  std::vector<NamedType> inputs = {};
  std::vector<std::string> outputs = {};
  std::vector<Operation> operations = {};  ///< each after those that it reads
  Values attributes = {};
};

struct Function {
  std::vector<NamedType> inputs = {};
  std::string opset;                                      ///< "CoreML7"
  std::map<std::string, Block, std::less<>> blocks = {};  ///< by opset; the one of `opset` is what runs
  Values attributes = {};
  /// The block of `opset`. Fails if there is none.
  const Block& body() const;
};

struct Program {
  int64_t version = 1;
  std::map<std::string, Function, std::less<>> functions = {};
  std::string doc = {};
  Values attributes = {};
};

/// What an input, output or state is to whoever calls the model.
struct Feature {
  enum class Kind : uint8_t { unknown, int64, real64, string, image, array, dictionary, sequence, state };
  enum class ColorSpace : int32_t { unknown = 0, grayscale = 10, rgb = 20, bgr = 30, grayscale_f16 = 40 };
  struct Range {
    int64_t lower = 0;
    std::optional<int64_t> upper = {};  ///< nothing: without bound
  };
  struct Flexibility {
    std::vector<Shape> shapes = {};  ///< the only ones allowed
    std::vector<Range> ranges = {};  ///< or one for each dim; of an image: width, height
  };
  std::string name;
  std::string doc = {};
  Kind kind = Kind::array;
  bool optional = false;
  // Of arrays, and of states, which are arrays.
  Shape shape = {};
  std::optional<DType> dtype = {};  ///< f32, f64, i32, i8 or f16; nothing for a code that we do not know
  std::optional<double> default_value = {};
  // Of images. `shape` is then {height, width}, as are the shapes of `flexibility`.
  ColorSpace color_space = ColorSpace::unknown;
  Flexibility flexibility = {};
  bool string_keys = false;  ///< of dictionaries: strings, else int64; of sequences, their elements
};

struct FunctionDescription {
  std::string name = {};
  std::vector<Feature> inputs = {}, outputs = {}, states = {};
  std::string predicted_feature = {}, predicted_probabilities = {};
};

struct Metadata {
  std::string description = {}, version = {}, author = {}, license = {};
  std::map<std::string, std::string, std::less<>> user = {};
};

struct Model {
  int32_t specification_version = 0;
  FunctionDescription main = {};                    ///< of a model with one function
  std::vector<FunctionDescription> functions = {};  ///< of a model with several: `main` is empty then
  std::string default_function = {};
  Metadata metadata = {};
  Program program = {};

  /// The description of a function: that of `functions`, or `main`. Fails if there is none of that name.
  const FunctionDescription& description_of(std::string_view function) const;
  /// The function that runs when none is named.
  std::string_view default_function_name() const;
};

}  // namespace rlx::mil
