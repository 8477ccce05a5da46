// `rlx train`: the subcommand. What it can be told stands in tools/train/settings.cpp, what it does in
// tools/train/loop.cpp.
#include <CLI/CLI.hpp>

#include "tools/encoder_options.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/train/loop.h"
#include "tools/train/options.h"

namespace rlx::tools {
namespace {

struct Train {
  explicit Train(CLI::App& app);
  void run() const;

  SettingsOptions options;
  bool audits = false, markdown = false;
  TrainRun how;
};

Train::Train(CLI::App& app)
    : options(app, "linear, mlp, cnn, char_lm, or a .rlx file whose first output is the loss",
              [](const Setting&) { return true; }) {
  app.add_flag("--resume", how.resume, "go on with the checkpoint in the folder of --out");
  app.add_flag("--overwrite", how.overwrite, "begin anew, whatever is in that folder");
  app.add_flag(
      "--json", how.json,
      "print one JSON object a line instead of text: the lines of metrics.jsonl as they are written, and a last\n"
      "one with what was written");
  app.add_flag("--audit", audits,
               "only list each trained param with the norm of its gradient; one that no gradient\n"
               "reaches is an error, unless --allow-unused");
  app.add_flag("--markdown", markdown, "only print the settings as Markdown: docs/generated/train.md");
  add_threads_option(app, how.threads);
  add_device_option(app, how.device);
  app.footer(
      R"(The built-in models take 'x' and the answers 't': labels (integers) or numbers (floats); images of bytes count as 0 to 1.
A .rlx graph takes data for each of its inputs, by name, with the examples along the first dim, which may be a symbol; they
are converted to its dtypes. An input 'key' u32[2] gets a new key each step. Params without a value are drawn.

The folder of --out gets checkpoint.safetensors (to go on from), params.safetensors (the params alone), inference.rlx (of the
built-in models: what `rlx run`, `where`, `convert` and `compare` take, as they take the folder), metrics.jsonl (a line of
JSON every --log-every steps and for each test), loss.svg, of char_lm sample.txt; with --patience also best.safetensors; with --activation-scales int8.rlx, the model in codes of 8 bits.
Ctrl-C ends the step, writes the checkpoint and stops; --resume goes on exactly as if nothing had happened.

A config file has the same names with _ for -, in the sections that stand above; files in it lie beside it:
  [model]                       [data]                                [train]
  name = "mlp"                  x = "train-images-idx3-ubyte"         epochs = 10
  hidden = [256, 128]           t = "train-labels-idx1-ubyte"         out = "digits"

Examples:
  rlx train linear --steps 200 --learning-rate 0.05 --out line
  rlx train mlp --data x=x.npy --data t=t.npy --hold-out 0.1 --epochs 20 --patience 3 --out digits
  rlx train --config examples/mnist_cnn.toml
  rlx train --config examples/mnist_cnn.toml --params mnist_cnn/params.safetensors --activation-scales ema --epochs 2 --out int8
  rlx train char_lm --data text=docs --steps 500 --prompt "# " --out writer
  rlx train loss.rlx --params start.safetensors --data x=table.csv:height,weight --data t=table.csv:age --audit)");
}

void Train::run() const {
  if (markdown) {
    write_out(settings_markdown());
    flush_out();
    return;
  }
  TrainRun run = how;
  run.settings = options.settings();
  if (run.resume && run.overwrite) throw UsageError("give either --resume or --overwrite, not both");
  if (run.json && audits) throw UsageError("--audit prints a table; give either --audit or --json");
  if (audits) audit(run);
  else train(run);
}

}  // namespace

Subcommand add_train(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("train", "Trains a model on data from files");
  auto train = std::make_shared<Train>(*app);
  return {app, [train] { train->run(); }};
}

}  // namespace rlx::tools
