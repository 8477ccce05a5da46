// RLX, all of it: graphs and ops, sessions, files, models.
#pragma once

#include "rlx/autodiff.h"
#include "rlx/coreml_model.h"
#include "rlx/data.h"
#include "rlx/graph_file.h"
#include "rlx/io.h"
#include "rlx/kernel.h"
#include "rlx/lora.h"
#include "rlx/machine.h"
#include "rlx/metrics.h"
#include "rlx/models.h"
#include "rlx/ops.h"
#include "rlx/png.h"
#include "rlx/quantization.h"
#include "rlx/session.h"
#include "rlx/train.h"
#include "rlx/version.h"
