// Non-maximum suppression, and boxes that are cut out of images.
#include "programs.h"

namespace rlx::test {
namespace {

struct Kept {
  std::vector<double> boxes, scores, places, count;
};
Kept suppress(const Tensor& boxes, const Tensor& scores, std::vector<Given> more, int opset = 5) {
  more.emplace_back("boxes", "b");
  more.emplace_back("scores", "s");
  Written w(opset);
  w.input("b", boxes).input("s", scores);
  w.add(operation("non_maximum_suppression", more,
                  {unknown("kept", f32, 3), unknown("of", f32, 3), unknown("at", i32, 2), unknown("n", i32, 1)}));
  for (const char* name : {"kept", "of", "at", "n"}) w.result(name);
  auto r = results_of(w.model, {{"b", boxes}, {"s", scores}});
  return {numbers(r[0]), numbers(r[1]), numbers(r[2]), numbers(r[3])};
}

}  // namespace

TEST_CASE("the example of coremltools' test_tensor_operation.py") {
  Tensor boxes = Tensor::of<float>({1, 4, 4}, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  Tensor scores = Tensor::of<float>({1, 4, 1}, {-3.5f, 9.4f, 2.3f, 0.7f});
  Kept k = suppress(boxes, scores,
                    {{"iou_threshold", number(0.2)},
                     {"score_threshold", number(0.4)},
                     {"max_boxes", number(2, i32)},
                     {"per_class_suppression", number(1, boolean)}});
  CHECK(k.boxes == std::vector<double>{1, 1, 1, 1, 2, 2, 2, 2});
  CHECK(k.places == std::vector<double>{1, 2});
  CHECK(k.count == std::vector<double>{2});
}

TEST_CASE("boxes that overlap the best one go, what is left over is padding") {
  // The first two share 1.5 of 2.5; the third stands apart.
  Tensor boxes = Tensor::of<float>({1, 3, 4}, {1, 1, 2, 1, 1.5f, 1, 2, 1, 9, 9, 1, 1});
  Tensor scores = Tensor::of<float>({1, 3, 2}, {0.5f, 0.1f, 0.2f, 0.9f, 0.3f, 0.0f});
  Kept k = suppress(boxes, scores, {{"iou_threshold", number(0.5)}, {"max_boxes", number(3, i32)}}, 7);
  CHECK(k.places == std::vector<double>{1, 2, -1});
  CHECK(k.boxes == std::vector<double>{1.5, 1, 2, 1, 9, 9, 1, 1, 0, 0, 0, 0});
  CHECK(k.count == std::vector<double>{2});
  // The two are of unequal classes: each keeps its own.
  Kept own = suppress(
      boxes, scores,
      {{"iou_threshold", number(0.5)}, {"max_boxes", number(3, i32)}, {"per_class_suppression", number(1, boolean)}},
      7);
  CHECK(own.places == std::vector<double>{1, 0, 2});
  // IoU 0.6 is not above 0.7.
  CHECK(suppress(boxes, scores, {{"iou_threshold", number(0.7)}, {"max_boxes", number(3, i32)}}, 7).count ==
        std::vector<double>{3});
}

TEST_CASE("without a box above the threshold the best one is kept") {
  Tensor boxes = Tensor::of<float>({1, 2, 4}, {1, 1, 1, 1, 5, 5, 1, 1}),
         scores = Tensor::of<float>({1, 2, 1}, {0.1f, 0.2f});
  Kept k = suppress(boxes, scores,
                    {{"iou_threshold", number(0.5)}, {"score_threshold", number(0.9)}, {"max_boxes", number(2, i32)}});
  CHECK(k.places == std::vector<double>{1, -1});
  CHECK(k.count == std::vector<double>{1});
}

}  // namespace rlx::test
