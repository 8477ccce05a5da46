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

EncoderOptions::EncoderOptions(CLI::App& app) {
  add_model_option(app, model)->required();
  add_threads_option(app, threads);
  add_device_option(app, device);
}

SentenceEncoder EncoderOptions::load() const {
  SentenceEncoder::Options options;
  options.device = Device::parse(device);
  options.threads = threads;
  return SentenceEncoder::load(model, options);
}

}  // namespace rlx::tools
