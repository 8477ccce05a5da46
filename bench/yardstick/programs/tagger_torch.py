"""The tagger in PyTorch."""

from yardstick import serve

THREADS, _ = serve.threads_and_variant()

import torch  # noqa: E402
from yardstick import suites  # noqa: E402
from yardstick.programs import tagger_net  # noqa: E402

torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)


class Tagger(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        w = {name: torch.from_numpy(array) for name, array in weights.items()}
        self.words = torch.nn.Embedding.from_pretrained(w["words"])
        self.lstm = torch.nn.LSTM(suites.EMBEDDING, suites.HIDDEN, batch_first=True, bidirectional=True)
        self.tags = torch.nn.Linear(2 * suites.HIDDEN, suites.TAGS)
        for direction, suffix in enumerate(("", "_reverse")):
            getattr(self.lstm, "weight_ih_l0" + suffix).copy_(w["w_ih"][direction])
            getattr(self.lstm, "weight_hh_l0" + suffix).copy_(w["w_hh"][direction])
            getattr(self.lstm, "bias_ih_l0" + suffix).copy_(w["bias"][direction])
            getattr(self.lstm, "bias_hh_l0" + suffix).zero_()
        self.tags.weight.copy_(w["tags"].T)
        self.tags.bias.copy_(w["tag_bias"])

    def forward(self, ids):
        return self.tags(self.lstm(self.words(ids))[0])


def prepare(case):
    ids = torch.from_numpy(suites.tagger_inputs(case)["ids"])
    weights = tagger_net.load()

    def build():
        net = Tagger(weights).eval()
        if serve.COMPUTE == "int8":
            net = torch.ao.quantization.quantize_dynamic(net, {torch.nn.LSTM, torch.nn.Linear}, dtype=torch.qint8)

        def run():
            with torch.inference_mode(), serve.autocast():
                return net(ids).float()

        return run

    return build


if __name__ == "__main__":
    serve.serve(prepare)
