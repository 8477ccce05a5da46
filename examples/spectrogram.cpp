// The log-mel spectrum of a sound, as Whisper sees it, as an image: time goes right, pitch goes up.
//
//   spectrogram OUT.png [SOUND.npy]        SOUND.npy: f32 samples at 16 kHz; left out: two vowels, made here
//
// The vowels are pulses whose pitch falls, through resonators at the formants of "ah" and "ee": recursive filters, as
// part of the same graph.
#include <cmath>
#include <iostream>

#include "rlx/io.h"
#include "rlx/png.h"
#include "rlx/rlx.h"

namespace {

using namespace rlx;

constexpr int64_t kRate = 16000, kMels = 80;

/// Pulses at `pitch` Hz, which falls by a fifth, for half a second.
Tensor pulses(double pitch) {
  Tensor x(f32, {kRate / 2});
  double phase = 0;
  for (float& v : x.mutable_values<float>()) {
    double before = std::floor(phase);
    phase += pitch / kRate, pitch *= 1 - 0.4 / kRate;
    v = std::floor(phase) > before ? 1.0f : 0.0f;
  }
  return x;
}
/// x through a resonator of that frequency and width in Hz.
Value resonator(Value x, double frequency, double width) {
  Graph& g = x.graph();
  double r = std::exp(-M_PI * width / kRate), turn = 2 * M_PI * frequency / kRate;
  auto a1 = static_cast<float>(-2 * r * std::cos(turn)), a2 = static_cast<float>(r * r);
  return iir(x, g.constant(Tensor::of<float>({1}, {1 + a1 + a2})), g.constant(Tensor::of<float>({3}, {1, a1, a2})));
}
Value vowel(Value x, std::initializer_list<std::pair<double, double>> formants) {
  for (auto [frequency, width] : formants) x = resonator(x, frequency, width);
  return x;
}
/// Two vowels of what is fed as pulses.
Value two_vowels(Value first, Value second) {
  Value ah = vowel(first, {{730, 90}, {1090, 110}, {2440, 170}});
  Value ee = vowel(second, {{270, 60}, {2290, 120}, {3010, 200}});
  Value sound = concatenate({ah, ee}, 0);
  return sound * broadcast_to(0.5 / reduce_max(abs(sound), {0}), sound.dims());
}

int draw(const std::string& image_path, const std::string& sound_path) {
  std::vector<Tensor> fed = {pulses(140), pulses(120)};
  if (!sound_path.empty()) fed = {read_npy(sound_path)};
  std::vector<Type> types;
  for (const Tensor& t : fed) types.push_back(t.type());
  Graph g = trace(types, [](Graph& to, Values in) {
    Value sound = in.size() == 1 ? in[0] : two_vowels(in[0], in[1]);
    Value mel = log_mel(stft(sound), mel_filters(to, kMels, 400, kRate), MelMaximum::clip);
    // From the clip's floor to its maximum, 8 decades and so 2 units apart, black to white; the lowest at the bottom.
    Value top = broadcast_to(reduce_max(mel, {0, 1}), mel.dims());
    Value gray = clamp((mel - top) * 127.5 + 255.0, 0, 255);
    return convert(reverse(transpose(gray, {1, 0}), {0}), u8);
  });
  Tensor image = Session().compile(g).run_ordered(fed)[0];
  write_png(image_path, image);
  std::cout << image_path << ": " << image.shape()[1] << " frames of 10 ms, " << image.shape()[0] << " mels\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: spectrogram OUT.png [SOUND.npy]\n";
    return 2;
  }
  try {
    return draw(argv[1], argc > 2 ? argv[2] : "");
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
