// See the header.
#include "tools/encoder_options.h"

namespace rlx::tools {

CLI::Option* add_model_option(CLI::App& app, std::string& folder) {
  return app.add_option("--model", folder, "folder of the model: config.json, tokenizer.json, model.safetensors")
      ->option_text("DIR (default: what RLX_MODEL names)")
      ->envname("RLX_MODEL");
}

CLI::Option* add_threads_option(CLI::App& app, int& threads) {
  return app.add_option("--threads", threads, "threads to use; all that the process may use where it is left out")
      ->option_text("N")
      ->check(CLI::Range(1, 256));
}

CLI::Option* add_device_option(CLI::App& app, std::string& device, const std::string& name) {
  return app.add_option(name, device, "device, as `rlx devices` lists them (default cpu)")->type_name("DEVICE");
}

void add_accuracy_options(CLI::App& app, CompileOptions& options) {
  std::vector<std::pair<std::string, Accuracy>> names;
  for (size_t i = 0; i < names_of(Accuracy()).size(); ++i)
    names.emplace_back(names_of(Accuracy())[i], static_cast<Accuracy>(i));
  add_choice(app, "--accuracy", options.accuracy, names,
             "of products of f32: f32 (default), exact (computed in f64), or row_relative (errors relative to a row's "
             "largest number; faster where there are matrix tiles)");
  std::vector<std::pair<std::string, Compute>> types;
  for (size_t i = 0; i < names_of(Compute()).size(); ++i)
    types.emplace_back(names_of(Compute())[i], static_cast<Compute>(i));
  add_choice(
      app, "--compute", options.compute, types,
      "in what a graph of f32 is computed: f32 (default), bf16 or f16 (products, convolutions, attention and what "
      "stands between them; sums in f32), int8 (products and convolutions with weights), auto (in the float that "
      "the device's target names, `fast_float` of `rlx devices --json`)");
  app.add_flag("--batch-invariant", options.batch_invariant,
               "a row's bits do not depend on how many rows are multiplied with it");
  app.add_flag("--narrow", options.narrow,
               "permits a device without numbers of 64 bits (coreml) to compute i64 in i32 and f64 in f32");
  app.add_option(
         "--isa", options.isa,
         "the most that the CPU uses of the processor's instructions, as RLX_ISA names them: sse4, avx2, avx512, "
         "avx512_vnni, amx; neon, neon_dot, neon_i8mm; native (default)")
      ->type_name("NAME");
}

void add_split_options(CLI::App& app, CompileOptions& options) {
  app.add_option("--fallback", options.fallback,
                 "devices that may run what the device does not take, in this order, with commas in between (default: "
                 "RLX_FALLBACK, else none)")
      ->delimiter(',')
      ->type_name("DEVICES");
  app.add_option_function<std::vector<std::string>>(
         "--place",
         [&options](const std::vector<std::string>& all) {
           std::vector<Placement> given;
           for (const std::string& each : all) try {
               given.push_back(Placement::parse(each));
             } catch (const Error& e) {
               throw CLI::ValidationError("--place", e.what());
             }
           // In front of an execution profile's: the first entry that names a node decides.
           options.placement.insert(options.placement.begin(), given.begin(), given.end());
         },
         "where nodes are to run, by their names with '*' for any characters, op:NAME or %NUMBER; once for each")
      ->type_name("PATTERN=DEVICE")
      ->allow_extra_args(false);
}

EncoderOptions::EncoderOptions(CLI::App& app) {
  add_model_option(app, model)->required();
  add_threads_option(app, threads);
  add_device_option(app, device);
  add_accuracy_options(app, compile);
  add_split_options(app, compile);
}

std::string EncoderOptions::setting() const {
  return text_of(device, ", ", names_of(compile.accuracy)[static_cast<size_t>(compile.accuracy)],
                 compile.batch_invariant ? ", batch_invariant" : "", compile.narrow ? ", narrow" : "",
                 compile.isa.empty() ? "" : text_of(", isa ", compile.isa),
                 compile.compute == Compute::as_f32
                     ? ""
                     : text_of(", compute ", names_of(compile.compute)[static_cast<size_t>(compile.compute)]));
}

bool asks_for_numbers(const CompileOptions& options) {
  return options.accuracy != Accuracy::as_f32 || options.batch_invariant || options.compute != Compute::as_f32 ||
         options.narrow || !options.isa.empty();
}

SentenceEncoder EncoderOptions::load() const {
  SentenceEncoder::Options options;
  options.device = Device::parse(device);
  options.threads = threads;
  options.compile = compile;
  return SentenceEncoder::load(model, options);
}

}  // namespace rlx::tools
