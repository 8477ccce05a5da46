package gomlx

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapeinference"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// unary adds an element-wise op of one operand.
func (f *Function) unary(op compute.OpType, name string, x compute.Value) (compute.Value, error) {
	v, err := f.own(op.String(), x)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.UnaryOp(op, v.shape)
	if err != nil {
		return nil, err
	}
	if op == compute.OpTypeAbs && shape.DType.IsComplex() {
		shape = withDType(shape, shape.DType.RealDType())
	}
	return f.emit(name, shape, []*value{v}), nil
}

func withDType(shape shapes.Shape, dtype dtypes.DType) shapes.Shape {
	shape = shape.Clone()
	shape.DType = dtype
	return shape
}

// broadcast repeats a scalar, or axes of dimension 1, so that x has the dims of shape.
func (f *Function) broadcast(x *value, shape shapes.Shape) (*value, error) {
	same := x.shape.Rank() == shape.Rank()
	for axis := 0; same && axis < shape.Rank(); axis++ {
		same = x.shape.Dimensions[axis] == shape.Dimensions[axis]
	}
	if same {
		return x, nil
	}
	axes := make([]int, x.shape.Rank())
	for i := range axes {
		axes[i] = i
	}
	return f.broadcastInDim(x, withDType(shape, x.shape.DType), axes)
}

func (f *Function) broadcastInDim(x *value, shape shapes.Shape, axes []int) (*value, error) {
	dims, err := f.builder.symbols.dims(shape)
	if err != nil {
		return nil, err
	}
	return f.emit("broadcast_in_dim", shape, []*value{x}, "dims = "+dims, "axes = "+ints(axes)), nil
}

// two checks both operands and gives them the dims of the result.
func (f *Function) two(op compute.OpType, lhs, rhs compute.Value, infer func(op compute.OpType, lhs, rhs shapes.Shape) (shapes.Shape, error)) ([]*value, shapes.Shape, error) {
	operands, err := f.ownAll(op.String(), []compute.Value{lhs, rhs})
	if err != nil {
		return nil, shapes.Invalid(), err
	}
	shape, err := infer(op, operands[0].shape, operands[1].shape)
	if err != nil {
		return nil, shapes.Invalid(), err
	}
	for i := range operands {
		if operands[i], err = f.broadcast(operands[i], shape); err != nil {
			return nil, shapes.Invalid(), err
		}
	}
	return operands, shape, nil
}

func (f *Function) binary(op compute.OpType, name string, lhs, rhs compute.Value) (compute.Value, error) {
	operands, shape, err := f.two(op, lhs, rhs, shapeinference.BinaryOp)
	if err != nil {
		return nil, err
	}
	made := f.emit(name, shape, operands)
	switch first, second := lhs.(*value).extent, rhs.(*value).extent; op {
	case compute.OpTypeAdd:
		made.extent = first.plus(second)
	case compute.OpTypeMul:
		made.extent = first.times(second)
	}
	return made, nil
}

func (f *Function) compare(op compute.OpType, direction string, total bool, lhs, rhs compute.Value) (compute.Value, error) {
	inferred := op
	if op == compute.OpTypeNotEqualTotalOrder { // compute v0.1.3 has no shape inference for it
		inferred = compute.OpTypeEqualTotalOrder
	}
	operands, shape, err := f.two(inferred, lhs, rhs, shapeinference.ComparisonOp)
	if err != nil {
		return nil, errors.WithMessagef(err, "%s", op)
	}
	attrs := []string{"direction = " + direction}
	if total && operands[0].shape.DType.IsFloat() {
		attrs = append(attrs, "total_order = true")
	}
	return f.emit("compare", shape, operands, attrs...), nil
}

// Identity gives x.
func (f *Function) Identity(x compute.Value) (compute.Value, error) {
	v, err := f.own("Identity", x)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// IsFinite of floats; every integer is finite.
func (f *Function) IsFinite(x compute.Value) (compute.Value, error) {
	v, err := f.own("IsFinite", x)
	if err != nil {
		return nil, err
	}
	if !v.shape.DType.IsFloat() {
		return nil, errors.Errorf("IsFinite takes floats, got %s", v.shape)
	}
	return f.emit("is_finite", withDType(v.shape, dtypes.Bool), []*value{v}), nil
}

// IsNaN is where x differs from itself.
func (f *Function) IsNaN(x compute.Value) (compute.Value, error) {
	v, err := f.own("IsNaN", x)
	if err != nil {
		return nil, err
	}
	if !v.shape.DType.IsFloat() && !v.shape.DType.IsComplex() {
		return nil, errors.Errorf("IsNaN takes floats, got %s", v.shape)
	}
	return f.emit("compare", withDType(v.shape, dtypes.Bool), []*value{v, v}, "direction = ne"), nil
}

// Complex makes complex numbers of real and imaginary parts, of which one may be a scalar.
func (f *Function) Complex(lhs, rhs compute.Value) (compute.Value, error) {
	operands, err := f.ownAll("Complex", []compute.Value{lhs, rhs})
	if err != nil {
		return nil, err
	}
	re, im := operands[0], operands[1]
	dtype := map[dtypes.DType]dtypes.DType{dtypes.Float32: dtypes.Complex64, dtypes.Float64: dtypes.Complex128}[re.shape.DType]
	if re.shape.DType != im.shape.DType || dtype == dtypes.InvalidDType {
		return nil, errors.Errorf("Complex takes two operands of Float32 or two of Float64, got %s and %s", re.shape, im.shape)
	}
	shape, err := shapeinference.BinaryOp(compute.OpTypeAdd, re.shape, im.shape)
	if err != nil {
		return nil, err
	}
	if re, err = f.broadcast(re, shape); err != nil {
		return nil, err
	}
	if im, err = f.broadcast(im, shape); err != nil {
		return nil, err
	}
	return f.emit("complex", withDType(shape, dtype), []*value{re, im}), nil
}

// Real part; of a float itself.
func (f *Function) Real(x compute.Value) (compute.Value, error) {
	v, err := f.own("Real", x)
	if err != nil || v.shape.DType.IsFloat() {
		return v, err
	}
	if !v.shape.DType.IsComplex() {
		return nil, errors.Errorf("Real takes complex numbers or floats, got %s", v.shape)
	}
	return f.emit("real", withDType(v.shape, v.shape.DType.RealDType()), []*value{v}), nil
}

// Imag is the imaginary part; of a float 0.
func (f *Function) Imag(x compute.Value) (compute.Value, error) {
	v, err := f.own("Imag", x)
	if err != nil {
		return nil, err
	}
	if v.shape.DType.IsFloat() {
		zero, err := f.constant(make([]byte, v.shape.DType.Size()), shapes.Make(v.shape.DType))
		if err != nil {
			return nil, err
		}
		return f.broadcast(zero, v.shape)
	}
	if !v.shape.DType.IsComplex() {
		return nil, errors.Errorf("Imag takes complex numbers or floats, got %s", v.shape)
	}
	return f.emit("imag", withDType(v.shape, v.shape.DType.RealDType()), []*value{v}), nil
}

// Where takes elements of onTrue where the condition holds, else of onFalse; each may be a scalar.
func (f *Function) Where(condition, onTrue, onFalse compute.Value) (compute.Value, error) {
	operands, err := f.ownAll("Where", []compute.Value{condition, onTrue, onFalse})
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.Where(operands[0].shape, operands[1].shape, operands[2].shape)
	if err != nil {
		return nil, err
	}
	for i := range operands {
		if operands[i], err = f.broadcast(operands[i], shape); err != nil {
			return nil, err
		}
	}
	return f.emit("select", shape, operands), nil
}

// Clamp limits x to [min, max], each a scalar or of x's shape.
func (f *Function) Clamp(min, x, max compute.Value) (compute.Value, error) {
	operands, err := f.ownAll("Clamp", []compute.Value{min, x, max})
	if err != nil {
		return nil, err
	}
	shape := operands[1].shape
	for i := range operands {
		given := operands[i].shape
		if given.DType != shape.DType || !given.IsScalar() && !given.EqualDimensions(shape) {
			return nil, errors.Errorf("Clamp takes limits that are scalars or %s, got %s and %s", shape, operands[0].shape, operands[2].shape)
		}
		if operands[i], err = f.broadcast(operands[i], shape); err != nil {
			return nil, err
		}
	}
	low := f.emit("maximum", shape, []*value{operands[1], operands[0]})
	return f.emit("minimum", shape, []*value{low, operands[2]}), nil
}

// ConvertDType converts x: see docs/ir.md of RLX for what does not fit.
func (f *Function) ConvertDType(x compute.Value, dtype dtypes.DType) (compute.Value, error) {
	v, err := f.ownState("ConvertDType", x)
	if err != nil {
		return nil, err
	}
	if _, ok := dtypeNames[dtype]; !ok {
		return nil, errors.Errorf("ConvertDType: backend rlx has no dtype %s", dtype)
	}
	if v.words != nil && (dtype == dtypes.Float32 || dtype == dtypes.Float64) {
		v.drawn = true
		return f.floatsOf(v, dtype)
	}
	v.plain = true
	made := f.convert(v, dtype)
	made.extent = v.extent
	return made, nil
}

func (f *Function) convert(v *value, dtype dtypes.DType) *value {
	if v.shape.DType == dtype {
		return v
	}
	if bits := v.shape.DType.Bits(); v.shape.DType == dtypes.Int2 || v.shape.DType == dtypes.Int1 {
		wide := withDType(v.shape, dtypes.Int8)
		v = f.emit("convert", wide, []*value{v}, "dtype = i8")
		away := f.emit("broadcast_in_dim", wide, []*value{f.int8(8 - bits)}, "dims = "+ints(wide.Dimensions), "axes = []")
		v = f.emit("shift_right_arithmetic", wide, []*value{f.emit("shift_left", wide, []*value{v, away}), away})
		return f.convert(v, dtype)
	}
	return f.emit("convert", withDType(v.shape, dtype), []*value{v}, "dtype = "+dtypeNames[dtype])
}

// int8 makes a constant.
func (f *Function) int8(n int) *value {
	made, err := f.constant([]byte{byte(n)}, shapes.Make(dtypes.Int8))
	if err != nil {
		panic(err) // cannot happen: a function that has returned converts nothing, and i8 is a dtype
	}
	return made
}

// Bitcast takes the bits as another dtype.
func (f *Function) Bitcast(x compute.Value, target dtypes.DType) (compute.Value, error) {
	v, err := f.own("Bitcast", x)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.Bitcast(v.shape, target)
	if err != nil {
		return nil, err
	}
	name, ok := dtypeNames[target]
	if !ok {
		return nil, unsupported(compute.OpTypeBitcast, "there is no dtype "+target.String())
	}
	switch from, to := v.shape.DType, target; {
	case from == to:
		return v, nil
	case from.Bits() == to.Bits() && from.IsPacked():
		return f.resign(v, to), nil
	case to.IsPacked() && !from.IsPacked():
		return f.unpack(v, shape)
	case from.IsPacked() && !to.IsPacked():
		return f.pack(v, shape)
	case from.IsPacked():
		return nil, unsupported(compute.OpTypeBitcast, "from "+from.String()+" to "+to.String())
	}
	return f.emit("bitcast", shape, []*value{v}, "dtype = "+name), nil
}

// Abs is RLX's abs.
func (f *Function) Abs(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeAbs, "abs", x)
}

// BitCount is RLX's popcnt.
func (f *Function) BitCount(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitCount, "popcnt", x)
}

// BitwiseNot is RLX's bitwise_not.
func (f *Function) BitwiseNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitwiseNot, "bitwise_not", x)
}

// Ceil is RLX's ceil.
func (f *Function) Ceil(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCeil, "ceil", x)
}

// Clz is RLX's clz.
func (f *Function) Clz(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeClz, "clz", x)
}

// Cos is RLX's cos.
func (f *Function) Cos(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCos, "cos", x)
}

// Conj is RLX's conjugate.
func (f *Function) Conj(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeConj, "conjugate", x)
}

// Erf is RLX's erf.
func (f *Function) Erf(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeErf, "erf", x)
}

// Exp is RLX's exp.
func (f *Function) Exp(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExp, "exp", x)
}

// Expm1 is RLX's expm1.
func (f *Function) Expm1(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExpm1, "expm1", x)
}

// Floor is RLX's floor.
func (f *Function) Floor(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeFloor, "floor", x)
}

// Log is RLX's log.
func (f *Function) Log(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog, "log", x)
}

// Log1p is RLX's log1p.
func (f *Function) Log1p(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog1p, "log1p", x)
}

// LogicalNot is RLX's bitwise_not.
func (f *Function) LogicalNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogicalNot, "bitwise_not", x)
}

// Logistic is RLX's logistic.
func (f *Function) Logistic(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogistic, "logistic", x)
}

// Neg is RLX's neg.
func (f *Function) Neg(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeNeg, "neg", x)
}

// Round is RLX's round_nearest_even.
func (f *Function) Round(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRound, "round_nearest_even", x)
}

// Rsqrt is RLX's rsqrt.
func (f *Function) Rsqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRsqrt, "rsqrt", x)
}

// Sign is RLX's sign.
func (f *Function) Sign(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSign, "sign", x)
}

// Sin is RLX's sin.
func (f *Function) Sin(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSin, "sin", x)
}

// Sqrt is RLX's sqrt.
func (f *Function) Sqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSqrt, "sqrt", x)
}

// Tanh is RLX's tanh.
func (f *Function) Tanh(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeTanh, "tanh", x)
}

// Add is RLX's add, broadcast.
func (f *Function) Add(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAdd, "add", lhs, rhs)
}

// Atan2 is RLX's atan2, broadcast.
func (f *Function) Atan2(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAtan2, "atan2", lhs, rhs)
}

// BitwiseAnd is RLX's bitwise_and, broadcast.
func (f *Function) BitwiseAnd(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseAnd, "bitwise_and", lhs, rhs)
}

// BitwiseOr is RLX's bitwise_or, broadcast.
func (f *Function) BitwiseOr(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseOr, "bitwise_or", lhs, rhs)
}

// BitwiseXor is RLX's bitwise_xor, broadcast.
func (f *Function) BitwiseXor(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseXor, "bitwise_xor", lhs, rhs)
}

// Div is RLX's div, broadcast.
func (f *Function) Div(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeDiv, "div", lhs, rhs)
}

// LogicalAnd is RLX's bitwise_and, broadcast.
func (f *Function) LogicalAnd(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalAnd, "bitwise_and", lhs, rhs)
}

// LogicalOr is RLX's bitwise_or, broadcast.
func (f *Function) LogicalOr(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalOr, "bitwise_or", lhs, rhs)
}

// LogicalXor is RLX's bitwise_xor, broadcast.
func (f *Function) LogicalXor(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalXor, "bitwise_xor", lhs, rhs)
}

// Max is RLX's maximum, broadcast.
func (f *Function) Max(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMax, "maximum", lhs, rhs)
}

// Min is RLX's minimum, broadcast.
func (f *Function) Min(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMin, "minimum", lhs, rhs)
}

// Mul is RLX's mul, broadcast.
func (f *Function) Mul(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMul, "mul", lhs, rhs)
}

// Pow is RLX's pow, broadcast.
func (f *Function) Pow(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypePow, "pow", lhs, rhs)
}

// Rem is RLX's rem, broadcast.
func (f *Function) Rem(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeRem, "rem", lhs, rhs)
}

// ShiftLeft is RLX's shift_left, broadcast.
func (f *Function) ShiftLeft(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftLeft, "shift_left", lhs, rhs)
}

// ShiftRightArithmetic is RLX's shift_right_arithmetic, broadcast.
func (f *Function) ShiftRightArithmetic(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightArithmetic, "shift_right_arithmetic", lhs, rhs)
}

// ShiftRightLogical is RLX's shift_right_logical, broadcast.
func (f *Function) ShiftRightLogical(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightLogical, "shift_right_logical", lhs, rhs)
}

// Sub is RLX's sub, broadcast.
func (f *Function) Sub(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeSub, "sub", lhs, rhs)
}

// Equal compares, broadcast.
func (f *Function) Equal(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqual, "eq", false, lhs, rhs)
}

// EqualTotalOrder compares in the total order, broadcast.
func (f *Function) EqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqualTotalOrder, "eq", true, lhs, rhs)
}

// NotEqual compares, broadcast.
func (f *Function) NotEqual(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqual, "ne", false, lhs, rhs)
}

// NotEqualTotalOrder compares in the total order, broadcast.
func (f *Function) NotEqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqualTotalOrder, "ne", true, lhs, rhs)
}

// LessThan compares, broadcast.
func (f *Function) LessThan(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThan, "lt", false, lhs, rhs)
}

// LessThanTotalOrder compares in the total order, broadcast.
func (f *Function) LessThanTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThanTotalOrder, "lt", true, lhs, rhs)
}

// LessOrEqual compares, broadcast.
func (f *Function) LessOrEqual(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqual, "le", false, lhs, rhs)
}

// LessOrEqualTotalOrder compares in the total order, broadcast.
func (f *Function) LessOrEqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqualTotalOrder, "le", true, lhs, rhs)
}

// GreaterThan compares, broadcast.
func (f *Function) GreaterThan(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThan, "gt", false, lhs, rhs)
}

// GreaterThanTotalOrder compares in the total order, broadcast.
func (f *Function) GreaterThanTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThanTotalOrder, "gt", true, lhs, rhs)
}

// GreaterOrEqual compares, broadcast.
func (f *Function) GreaterOrEqual(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqual, "ge", false, lhs, rhs)
}

// GreaterOrEqualTotalOrder compares in the total order, broadcast.
func (f *Function) GreaterOrEqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqualTotalOrder, "ge", true, lhs, rhs)
}
