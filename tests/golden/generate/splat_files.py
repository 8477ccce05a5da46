"""Files of splats and of COLMAP, written by others, and what is in them; the quality of images by scikit-image.

usage: splat_files.py
writes tests/golden/splat/: *.ply by plyfile, colmap_binary/ and colmap_text/ by pycolmap, expected.safetensors
"""
import numpy as np
import plyfile
import pycolmap
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

import recorded
from ops.case import f32, f64, i64, normal, rng, uniform, write_safetensors


def ply(name, n, coefficients, path, text=False, shuffled=False, wide=()):
    """A scene as the viewers have it; returns the tensors that it stands for."""
    values = {key: normal(f"{name}/{key}", (n,)) for key in ["x", "y", "z", "opacity", *(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]}
    values |= {key: np.zeros(n, f32) for key in ("nx", "ny", "nz")}
    rest = coefficients - 1
    values |= {f"f_dc_{i}": normal(f"{name}/dc{i}", (n,)) for i in range(3)}
    values |= {f"f_rest_{i}": normal(f"{name}/rest{i}", (n,)) for i in range(3 * rest)}
    keys = ["x", "y", "z", "nx", "ny", "nz", *(f"f_dc_{i}" for i in range(3)), *(f"f_rest_{i}" for i in range(3 * rest)), "opacity",
            *(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]
    if shuffled:
        values["red"] = np.arange(n, dtype=np.uint8)
        keys = [*keys, "red"]
        rng(name).shuffle(keys)
    vertex = np.empty(n, [(key, "f8" if key in wide else values[key].dtype.str) for key in keys])
    for key in keys:
        vertex[key] = values[key]
    elements = [plyfile.PlyElement.describe(vertex, "vertex", comments=["of the test"])]
    if shuffled:
        elements.insert(0, plyfile.PlyElement.describe(np.array([(1, 2.5), (-3, 4.5)], [("a", "i2"), ("b", "f8")]), "other"))
        faces = np.empty(1, [("vertex_indices", "O")])
        faces["vertex_indices"][0] = np.array([0, 1, 2], np.int32)
        elements.append(plyfile.PlyElement.describe(faces, "face"))
    plyfile.PlyData(elements, text=text, byte_order="<", comments=["golden"]).write(str(path))

    def of(*keys):
        return np.stack([values[key] for key in keys], -1)

    sh = np.stack([np.stack([values[f"f_dc_{c}"], *(values[f"f_rest_{c * rest + k}"] for k in range(rest))], -1) for c in range(3)], -1)
    return {f"{name}/positions": of("x", "y", "z"), f"{name}/log_scales": of("scale_0", "scale_1", "scale_2"),
            f"{name}/rotations": of("rot_1", "rot_2", "rot_3", "rot_0"), f"{name}/opacities": values["opacity"], f"{name}/sh": sh}


def colmap(out):
    """Two cameras, three images and some points, in both forms."""
    model = pycolmap.Reconstruction()
    cameras = [pycolmap.Camera(model="PINHOLE", width=640, height=480, params=[500.0, 500.0, 320.0, 240.0], camera_id=1),
               pycolmap.Camera(model="SIMPLE_RADIAL", width=300, height=200, params=[210.5, 150.0, 100.0, 0.01], camera_id=7)]
    for camera in cameras:
        model.add_camera_with_trivial_rig(camera)
    poses, names = [], ["a.png", "folder/b c.png", "last.jpg"]
    for i, name in enumerate(names):
        pose = pycolmap.Rigid3d(pycolmap.Rotation3d(normal(f"colmap/rotation{i}", (3,), f64)), normal(f"colmap/translation{i}", (3,), f64))
        image = pycolmap.Image(name=name, keypoints=uniform(f"colmap/points{i}", (4 * i, 2), 0, 200, f64), camera_id=1 if i < 2 else 7, image_id=i + 1)
        model.add_image_with_trivial_frame(image, pose)
        poses.append(pose)
    for i in range(5):
        track = pycolmap.Track()
        track.add_element(3, i)
        if i < 4:
            track.add_element(2, i)
        model.add_point3D(normal(f"colmap/point{i}", (3,), f64), track, np.array([i, 2 * i, 255 - i], np.uint8))
    for form, write in (("colmap_binary", model.write_binary), ("colmap_text", model.write_text)):
        folder = out / form
        folder.mkdir(exist_ok=True)
        write(str(folder))
        for file in folder.iterdir():  # of later versions: what reads the three others does not need them
            if file.stem not in ("cameras", "images", "points3D"):
                file.unlink()
    images = [model.images[i + 1] for i in range(3)]
    points = [model.points3D[i] for i in sorted(model.points3D)]
    tensors = {
        "colmap/rotations": np.array([np.roll(p.rotation.quat, 1) for p in poses]),  # w first
        "colmap/translations": np.array([p.translation for p in poses]),
        "colmap/image_points": np.concatenate([[p.xy for p in i.points2D] for i in images if len(i.points2D)]),
        "colmap/image_point_ids": np.array([p.point3D_id if p.has_point3D() else -1 for i in images for p in i.points2D], i64),
        "colmap/points": np.array([p.xyz for p in points]),
        "colmap/colors": np.array([p.color for p in points], np.uint8),
        "colmap/tracks": np.array([[e.image_id, e.point2D_idx] for p in points for e in p.track.elements], i64),
        # Of the images of the first camera: where it is, its axis, and up in the image.
        "colmap/centers": np.array([i.projection_center() for i in images[:2]]),
        "colmap/axes": np.array([i.viewing_direction() for i in images[:2]]),
        "colmap/ups": np.array([-i.cam_from_world().rotation.matrix()[1] for i in images[:2]]),
    }
    return {name: np.ascontiguousarray(t) for name, t in tensors.items()}


def quality():
    tensors = {}
    for name, dims, dtype, span, settings in (("gray", (24, 17, 1), f64, 1.0, {}), ("color", (16, 33, 3), f64, 255.0, {}), ("single", (20, 20, 3), f32, 1.0, {}),
                                              ("small", (7, 9, 2), f64, 1.0, dict(win_size=7, sigma=0.8, truncate=3.5))):
        x = uniform(f"{name}/x", dims, 0, span, dtype)
        y = np.clip(x + normal(f"{name}/y", dims, dtype, 0.1 * span), 0, span).astype(dtype)
        wide = [a.astype(f64) for a in (x, y)]
        tensors |= {f"{name}/x": x, f"{name}/y": y, f"{name}/range": np.array(span),
                    f"{name}/psnr": np.array(peak_signal_noise_ratio(*wide, data_range=span)),
                    f"{name}/ssim": np.array(structural_similarity(*wide, data_range=span, gaussian_weights=True, use_sample_covariance=False,
                                                                   channel_axis=-1, **{"sigma": 1.5, **{k: v for k, v in settings.items() if k == "sigma"}}))}
    return tensors


def main():
    out = recorded.folder("splat")
    tensors = ply("viewer", 5, 16, out / "viewer.ply")
    tensors |= ply("text", 3, 4, out / "text.ply", text=True)
    tensors |= ply("shuffled", 4, 1, out / "shuffled.ply", shuffled=True, wide=("x", "rot_2"))
    tensors |= ply("shuffled_text", 2, 9, out / "shuffled_text.ply", text=True, shuffled=True)
    tensors |= ply("none", 0, 1, out / "none.ply")
    tensors |= colmap(out) | quality()
    write_safetensors(out / "expected.safetensors", tensors)
    recorded.write_versions(out, "splat_files.py", ["numpy", "plyfile", "pycolmap", "scikit-image"], tensors=len(tensors))


if __name__ == "__main__":
    main()
