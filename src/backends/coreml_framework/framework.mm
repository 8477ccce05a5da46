// CoreML.framework behind framework.h, in Objective-C++ with ARC. Kept to what only Objective-C can say: the logic
// stands in strided.cpp and compiled_cache.cpp, which every system tests. tests/coreml_framework checks this file's
// syntax and types against headers that declare what it uses.
#import <CoreML/CoreML.h>
#include <dispatch/dispatch.h>
#import <Foundation/Foundation.h>
#include <sys/sysctl.h>

#include <filesystem>
#include <memory>

#include "backends/coreml_framework/compiled_cache.h"
#include "backends/coreml_framework/framework.h"
#include "backends/coreml_framework/strided.h"
#include "rlx/error.h"

namespace rlx::coreml_framework {
namespace {

/// Empty for nil, and for what UTF-8 cannot say.
std::string text_from(NSString* text) {
  const char* bytes = text ? [text UTF8String] : nullptr;
  return bytes ? bytes : std::string();
}
NSString* ns(const std::string& text) {
  NSString* made = [NSString stringWithUTF8String:text.c_str()];
  if (!made) fail(ErrorCode::invalid_argument, "Core ML takes names and paths in UTF-8, and '", text, "' is not");
  return made;
}

[[noreturn]] void refuse(const std::string& what, NSError* error) {
  fail(ErrorCode::unsupported, what, ": ",
       error ? text_from([error localizedDescription]) : "Core ML does not say why");
}

MLComputeUnits units_of(ComputeUnits units) {
  switch (units) {
    case ComputeUnits::cpu: return MLComputeUnitsCPUOnly;
    case ComputeUnits::gpu: return MLComputeUnitsCPUAndGPU;
    case ComputeUnits::ane:
      if (@available(macOS 13.0, iOS 16.0, *)) return MLComputeUnitsCPUAndNeuralEngine;
      return MLComputeUnitsAll;
    case ComputeUnits::all: break;
  }
  return MLComputeUnitsAll;
}

MLMultiArrayDataType array_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return MLMultiArrayDataTypeFloat32;
    case DType::f64: return MLMultiArrayDataTypeDouble;
    case DType::i32: return MLMultiArrayDataTypeInt32;
    case DType::f16:
      if (@available(macOS 12.0, iOS 16.0, *)) return MLMultiArrayDataTypeFloat16;
      break;
    default: break;
  }
  fail(ErrorCode::unsupported, "Core ML takes no array of ", dtype);
}
DType dtype_of(MLMultiArrayDataType type) {
  switch (type) {
    case MLMultiArrayDataTypeFloat32: return f32;
    case MLMultiArrayDataTypeDouble: return f64;
    case MLMultiArrayDataTypeInt32: return i32;
    case MLMultiArrayDataTypeFloat16: return f16;
    default: break;
  }
  fail(ErrorCode::unsupported, "Core ML gives an array of a type (", static_cast<long>(type),
       ") that is not known here");
}

NSArray<NSNumber*>* numbers_from(const Shape& shape) {
  NSMutableArray<NSNumber*>* all = [NSMutableArray arrayWithCapacity:shape.size()];
  for (int64_t n : shape) [all addObject:[NSNumber numberWithLongLong:n]];
  return all;
}
Shape shape_from(NSArray<NSNumber*>* numbers) {
  Shape shape;
  for (NSNumber* n in numbers) shape.push_back([n longLongValue]);
  return shape;
}

MLMultiArray* array_from(const std::string& name, const Tensor& tensor) {
  NSError* error = nil;
  MLMultiArray* array = [[MLMultiArray alloc] initWithShape:numbers_from(tensor.shape())
                                                   dataType:array_type(tensor.dtype())
                                                      error:&error];
  if (!array) refuse("an array for input '" + name + "' cannot be made", error);
  // Its strides are Core ML's own choice. A block must not throw: what goes wrong is carried out of it.
  const Tensor& from = tensor;
  __block std::string wrong;
  [array getMutableBytesWithHandler:^(void* bytes, NSInteger size, NSArray<NSNumber*>* strides) {
    try {
      copy_to(from, bytes, static_cast<size_t>(size), shape_from(strides));
    } catch (const std::exception& e) {
      wrong = e.what();
    }
  }];
  if (!wrong.empty()) fail(ErrorCode::internal, "input '", name, "': ", wrong);
  return array;
}

Tensor tensor_from(const std::string& name, MLMultiArray* array) {
  DType dtype = dtype_of([array dataType]);
  Shape shape = shape_from([array shape]), strides = shape_from([array strides]);
  __block Tensor result;
  __block std::string wrong;
  [array getBytesWithHandler:^(const void* bytes, NSInteger size) {
    try {
      result = dense_from(bytes, static_cast<size_t>(size), dtype, shape, strides);
    } catch (const std::exception& e) {
      wrong = e.what();
    }
  }];
  if (!wrong.empty()) fail(ErrorCode::internal, "output '", name, "': ", wrong);
  return result;
}

MLDictionaryFeatureProvider* provider_from(const Named& inputs) {
  NSMutableDictionary<NSString*, MLFeatureValue*>* features = [NSMutableDictionary dictionary];
  for (const auto& [name, tensor] : inputs)
    [features setObject:[MLFeatureValue featureValueWithMultiArray:array_from(name, tensor)] forKey:ns(name)];
  NSError* error = nil;
  MLDictionaryFeatureProvider* provider = [[MLDictionaryFeatureProvider alloc] initWithDictionary:features
                                                                                            error:&error];
  if (!provider) refuse("the inputs are not taken", error);
  return provider;
}

Named outputs_from(id<MLFeatureProvider> provider) {
  Named outputs;
  for (NSString* name in [provider featureNames]) {
    MLMultiArray* array = [[provider featureValueForName:name] multiArrayValue];
    if (array) outputs.emplace_back(text_from(name), tensor_from(text_from(name), array));
  }
  return outputs;
}

constexpr int64_t kPlanSeconds = 120;  // that making a plan, which compiles for each processor, may take

std::string device_name(id device) {
  if (@available(macOS 14.0, iOS 17.0, *)) {
    if ([device isKindOfClass:[MLNeuralEngineComputeDevice class]]) return "ane";
    if ([device isKindOfClass:[MLGPUComputeDevice class]]) return "gpu";
    if ([device isKindOfClass:[MLCPUComputeDevice class]]) return "cpu";
  }
  return {};
}

API_AVAILABLE(macos(14.4), ios(17.4))
void add_block(MLComputePlan* plan, MLModelStructureProgramBlock* block, std::vector<PlannedOp>& ops) {
  for (MLModelStructureProgramOperation* operation in [block operations]) {
    PlannedOp planned;
    planned.op = text_from([operation operatorName]);
    if ([[operation outputs] count] > 0) planned.output = text_from([[[operation outputs] firstObject] name]);
    if (MLComputePlanDeviceUsage* usage = [plan computeDeviceUsageForMLProgramOperation:operation]) {
      planned.device = device_name([usage preferredComputeDevice]);
      for (id<MLComputeDeviceProtocol> device in [usage supportedComputeDevices]) {
        std::string name = device_name(device);
        if (!name.empty() && name != planned.device) planned.other.push_back(name);
      }
    }
    if (MLComputePlanCost* cost = [plan estimatedCostOfMLProgramOperation:operation]) planned.cost = [cost weight];
    ops.push_back(std::move(planned));
    for (MLModelStructureProgramBlock* inner in [operation blocks]) add_block(plan, inner, ops);
  }
}

/// What `give` gives or throws, for whoever waits: an exception must not leave a block.
template <class F>
void answer(const std::function<void(Named, std::exception_ptr)>& done, F give) {
  Named outputs;
  std::exception_ptr wrong;
  try {
    outputs = give();
  } catch (...) {
    wrong = std::current_exception();
  }
  done(std::move(outputs), wrong);
}

class Loaded final : public Model, public std::enable_shared_from_this<Loaded> {
 public:
  Loaded(MLModel* model, MLModelConfiguration* configuration, NSURL* compiled, std::string function,
         CompiledModel folder)
      : model_(model), configuration_(configuration), compiled_(compiled), function_(std::move(function)),
        folder_(std::move(folder)) {}
  ~Loaded() override {
    model_ = nil;
    std::error_code ignored;
    if (!folder_.kept) std::filesystem::remove_all(folder_.path, ignored);
  }

  Named predict(const Named& inputs) override {
    @autoreleasepool {
      NSError* error = nil;
      id<MLFeatureProvider> outputs = [model_ predictionFromFeatures:provider_from(inputs) error:&error];
      if (!outputs) refuse("the prediction failed", error);
      return outputs_from(outputs);
    }
  }

  void predict_async(const Named& inputs, std::function<void(Named, std::exception_ptr)> done) override {
    auto self = shared_from_this();  // whoever asked may drop the model before the answer is there
    if (@available(macOS 14.0, iOS 17.0, *)) {
      @autoreleasepool {
        [model_ predictionFromFeatures:provider_from(inputs)
                     completionHandler:^(id<MLFeatureProvider> outputs, NSError* error) {
                       answer(done, [&] {
                         if (!outputs) refuse("the prediction of " + self->folder_.path + " failed", error);
                         return outputs_from(outputs);
                       });
                     }];
      }
      return;
    }
    Named copy = inputs;
    dispatch_async(dispatch_get_global_queue(QOS_CLASS_USER_INITIATED, 0), ^{
      answer(done, [&] { return self->predict(copy); });
    });
  }

  std::vector<PlannedOp> plan() override {
    std::vector<PlannedOp> ops;
    if (@available(macOS 14.4, iOS 17.4, *)) {
      @autoreleasepool {
        dispatch_semaphore_t done = dispatch_semaphore_create(0);
        __block MLComputePlan* plan = nil;
        __block NSError* wrong = nil;
        [MLComputePlan loadContentsOfURL:compiled_
                           configuration:configuration_
                       completionHandler:^(MLComputePlan* loaded, NSError* error) {
                         plan = loaded;
                         wrong = error;
                         dispatch_semaphore_signal(done);
                       }];
        // What comes later finds its variables, which are the block's too.
        dispatch_time_t latest = dispatch_time(DISPATCH_TIME_NOW, kPlanSeconds * static_cast<int64_t>(NSEC_PER_SEC));
        if (dispatch_semaphore_wait(done, latest) != 0)
          fail(ErrorCode::unsupported, "Core ML has made no plan of '", folder_.path, "' in ", kPlanSeconds,
               " seconds; ask again");
        if (!plan) refuse("no plan of the model can be made", wrong);
        MLModelStructureProgram* program = [[plan modelStructure] program];
        NSString* name = function_.empty() ? @"main" : ns(function_);
        MLModelStructureProgramFunction* function = [[program functions] objectForKey:name];
        if (function) add_block(plan, [function block], ops);
      }
    }
    return ops;
  }

 private:
  MLModel* model_;
  MLModelConfiguration* configuration_;
  NSURL* compiled_;
  std::string function_;
  CompiledModel folder_;
};

std::string system_version() { return text_from([[NSProcessInfo processInfo] operatingSystemVersionString]); }

}  // namespace

bool is_present() { return true; }

int newest_opset() {
  if (@available(macOS 15.0, iOS 18.0, *)) return 8;
  if (@available(macOS 14.0, iOS 17.0, *)) return 7;
  if (@available(macOS 13.0, iOS 16.0, *)) return 6;
  return 5;
}

std::string chip_info() {
  char name[256] = {};
  size_t size = sizeof(name) - 1;
  // machdep.cpu.brand_string is there on macOS; phones say their model alone.
  if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0) return name;
  size = sizeof(name) - 1;
  if (sysctlbyname("hw.machine", name, &size, nullptr, 0) == 0) return name;
  return {};
}

bool ane_available() {
  if (@available(macOS 14.0, iOS 17.0, *)) {
    for (id<MLComputeDeviceProtocol> device in MLAllComputeDevices())
      if (device_name(device) == "ane") return true;
    return false;
  }
  return chip_info().starts_with("Apple");  // every Apple chip since the A11 and the M1 has one
}

std::shared_ptr<Model> load(const std::string& package, ComputeUnits units, const std::string& function) {
  @autoreleasepool {
    CompiledModel compiled = default_cache().find_or_make(content_key(package, system_version()), [&] {
      NSError* error = nil;
      NSURL* made = [MLModel compileModelAtURL:[NSURL fileURLWithPath:ns(package)] error:&error];
      if (!made) refuse("Core ML does not compile '" + package + "'", error);
      return text_from([made path]);
    });
    MLModelConfiguration* configuration = [[MLModelConfiguration alloc] init];
    [configuration setComputeUnits:units_of(units)];
    if (!function.empty()) {
      if (@available(macOS 15.0, iOS 18.0, *)) [configuration setFunctionName:ns(function)];
      else fail(ErrorCode::unsupported, "functions of a package can be chosen from macOS 15 and iOS 18 on");
    }
    NSURL* url = [NSURL fileURLWithPath:ns(compiled.path)];
    NSError* error = nil;
    MLModel* model = [MLModel modelWithContentsOfURL:url configuration:configuration error:&error];
    if (!model) refuse("Core ML does not load '" + package + "'", error);
    return std::make_shared<Loaded>(model, configuration, url, function, compiled);
  }
}

}  // namespace rlx::coreml_framework
