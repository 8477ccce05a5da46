"""What the builders of rlx/ops/signal.h make, by SciPy and PyTorch: windows, short-time transforms, spectral densities,
filters, and the log-mel spectrum of a sound that is much like speech.

usage: signals.py
writes tests/golden/signals/: signals.npz, versions.json

Mel filters are computed from Slaney's and HTK's definitions; those of Whisper's size must be what transformers'
audio_utils has, if that package is there.
"""
import numpy as np
import recorded
import scipy.signal
import torch

RATE = 16000


def random(seed, *dims):
    return np.random.RandomState(seed).standard_normal(dims)


def speech_like():
    """A second of two vowels with a hiss between them: pulses whose pitch falls, through three resonators each."""
    t = np.arange(RATE) / RATE
    pitch = 140 - 40 * t
    pulses = np.diff(np.floor(np.cumsum(pitch) / RATE), prepend=0.0)
    hiss = random(1, RATE) * 0.05
    voiced = np.where((t > 0.42) & (t < 0.58), 0.0, 1.0)

    def through(x, formants):
        for frequency, width in formants:
            r, angle = np.exp(-np.pi * width / RATE), 2 * np.pi * frequency / RATE
            a = [1, -2 * r * np.cos(angle), r * r]
            x = scipy.signal.lfilter([sum(a)], a, x)
        return x

    first = through(pulses * voiced * (t <= 0.42), ((730, 90), (1090, 110), (2440, 170)))   # as in "father"
    second = through(pulses * voiced * (t >= 0.58), ((270, 60), (2290, 120), (3010, 200)))  # as in "see"
    sound = first + second + scipy.signal.lfilter(*scipy.signal.butter(2, 0.5, "high"), hiss) * (1 - voiced) + 1e-4 * hiss
    return (0.5 * sound / np.abs(sound).max()).astype(np.float32)


def mel_filters(count, n_fft, rate, low, high, htk):
    """[count, n_fft / 2 + 1], straight from the definitions."""
    if htk:
        mel, hertz = lambda f: 2595 * np.log10(1 + f / 700), lambda m: 700 * (10 ** (m / 2595) - 1)
    else:
        mel = lambda f: np.where(f < 1000, 3 * f / 200, 15 + 27 * np.log(np.maximum(f, 1) / 1000) / np.log(6.4))
        hertz = lambda m: np.where(m < 15, 200 * m / 3, 1000 * 6.4 ** ((m - 15) / 27))
    corners = hertz(np.linspace(mel(np.float64(low)), mel(np.float64(high)), count + 2))
    f = np.fft.rfftfreq(n_fft, 1 / rate)
    return np.array([np.interp(f, corners[i:i + 3], [0, 1 if htk else 2 / (corners[i + 2] - corners[i]), 0]) for i in range(count)])


def main():
    arrays, facts = {}, {}
    for name in ("hann", "hamming", "blackman", "bartlett"):
        for n in (1, 2, 7, 16):
            for periodic in (True, False):
                arrays[f"window/{name}_{n}_{'periodic' if periodic else 'symmetric'}"] = scipy.signal.get_window(name, n, fftbins=periodic)
    for n, beta in ((9, 8.6), (16, 0.0), (12, 14.0)):
        for periodic in (True, False):
            arrays[f"kaiser/{n}_{beta}_{'periodic' if periodic else 'symmetric'}"] = scipy.signal.get_window(("kaiser", beta), n, fftbins=periodic)

    windows = {"hann": torch.hann_window, "hamming": torch.hamming_window, "blackman": torch.blackman_window, "bartlett": torch.bartlett_window}
    for name, dims, n, hop, window, center in (("plain", (2, 200), 32, 8, "hann", True), ("odd", (3, 101), 25, 10, "hamming", True),
                                               ("not_centered", (150,), 20, 7, "blackman", False), ("wide", (2, 2, 90), 16, 16, "bartlett", True)):
        x = random(len(name), *dims)
        w = windows[window](n, dtype=torch.float64)
        rows = torch.from_numpy(x.reshape(-1, dims[-1]))
        y = torch.stft(rows, n, hop, window=w, center=center, pad_mode="reflect", return_complex=True)
        arrays[f"stft/{name}/x"] = x
        arrays[f"stft/{name}/y"] = y.numpy().swapaxes(-1, -2).reshape(*dims[:-1], y.shape[-1], n // 2 + 1)
        if name in ("plain", "odd"):
            noisy = arrays[f"stft/{name}/y"] + 0.1 * random(5, *arrays[f"stft/{name}/y"].shape)
            z = torch.from_numpy(noisy.reshape(-1, *noisy.shape[-2:]).swapaxes(-1, -2).copy())
            z[:, 0].imag.zero_()
            back = torch.istft(z, n, hop, window=w, center=True, length=dims[-1] - 5)
            arrays[f"istft/{name}/x"] = z.numpy().swapaxes(-1, -2).reshape(noisy.shape)
            arrays[f"istft/{name}/y"] = back.numpy().reshape(*dims[:-1], -1)

    for name, dims, n, overlap, window, detrend, rate in (("plain", (300,), 64, None, "hann", "constant", 1.0), ("odd", (2, 333), 51, 20, "hamming", False, 44100.0),
                                                          ("no_overlap", (2, 2, 128), 32, 0, "boxcar", "constant", 10.0)):
        x = random(7 + len(name), *dims) + 3
        _, y = scipy.signal.welch(x, rate, window=window, nperseg=n, noverlap=overlap, detrend=detrend)
        arrays[f"psd/{name}/x"], arrays[f"psd/{name}/y"] = x, y

    for name, dims, b, a in (("fir", (2, 50), random(2, 7), [1.0]), ("fir_long", (9,), random(3, 20), [1.0]), ("butter", (2, 3, 60), *scipy.signal.butter(4, 0.2)),
                             ("unequal", (40,), [0.5, -0.25], [2.0, 0.3, -0.2, 0.1]), ("gain", (2, 5), [3.0], [2.0])):
        x = random(11 + len(name), *dims)
        arrays[f"filter/{name}/x"], arrays[f"filter/{name}/b"], arrays[f"filter/{name}/a"] = x, np.array(b, np.float64), np.array(a, np.float64)
        arrays[f"filter/{name}/y"] = scipy.signal.lfilter(b, a, x)

    for name, count, n, rate, low, high, htk in (("whisper", 80, 400, 16000, 0, 8000, False), ("htk", 40, 512, 16000, 20, 7600, True), ("odd", 13, 255, 22050, 50, 11025, False)):
        arrays[f"mel/{name}"] = mel_filters(count, n, rate, low, high, htk)
    try:
        from transformers.audio_utils import mel_filter_bank
        for name, options in (("whisper", dict(norm="slaney", mel_scale="slaney")), ("htk", dict(norm=None, mel_scale="htk"))):
            size = (201, 80, 0.0, 8000.0, 16000) if name == "whisper" else (257, 40, 20.0, 7600.0, 16000)
            theirs = mel_filter_bank(*size, **options).T
            # They know the corners to f64, and so do we; the slopes of Slaney's narrow triangles magnify what is left.
            facts[f"largest difference to transformers, {name}"] = float(np.abs(theirs - arrays[f"mel/{name}"]).max())
            assert np.allclose(theirs, arrays[f"mel/{name}"], atol=1e-9), name
    except ImportError:
        pass

    sound = speech_like()
    spectra = torch.stft(torch.from_numpy(sound.astype(np.float64)), 400, 160, window=torch.hann_window(400, dtype=torch.float64), return_complex=True)
    for clip in (True, False):
        mel = torch.log10(torch.clamp(torch.from_numpy(arrays["mel/whisper"]) @ spectra.abs() ** 2, min=1e-10)).T
        top = mel.max() if clip else mel.amax(dim=-1, keepdim=True)
        arrays[f"sound/log_mel_{'clip' if clip else 'frame'}"] = ((torch.maximum(mel, top - 8) + 4) / 4).numpy().astype(np.float32)
    arrays["sound/samples"] = sound
    out = recorded.folder("signals")
    np.savez_compressed(out / "signals.npz", **arrays)
    recorded.write_versions(out, "signals.py", ["numpy", "scipy", "torch"], arrays=len(arrays), **facts)
    print(len(arrays), "arrays", facts)


if __name__ == "__main__":
    main()
