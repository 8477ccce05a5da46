// All ops: their builders and attributes, a header per family.
#pragma once

#include "rlx/ops/activation.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/contract.h"
#include "rlx/ops/control.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/fused.h"
#include "rlx/ops/index.h"
#include "rlx/ops/linear.h"
#include "rlx/ops/loss.h"
#include "rlx/ops/norm.h"
#include "rlx/ops/reduction.h"
#include "rlx/ops/shape.h"
#include "rlx/ops/softmax.h"
#include "rlx/ops/sort.h"
#include "rlx/ops/window.h"
