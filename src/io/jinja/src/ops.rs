//! The operators, as Python has them for what JSON can hold. Each pays for what it looks at and for what it makes.
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};
use std::cmp::Ordering;

use crate::budget::{look, spend};
use crate::values::{self, str_of, type_name, wrong, Dict, List};

#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    fn float(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(f) => f,
        }
    }
    fn value(self) -> Value {
        match self {
            Number::Int(i) => i64::try_from(i).map(Value::from).unwrap_or_else(|_| Value::from(i)),
            Number::Float(f) => Value::from(f),
        }
    }
}

fn number(value: &Value) -> Option<Number> {
    match value.kind() {
        ValueKind::Bool => Some(Number::Int(value.is_true() as i128)),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Number::Int),
        ValueKind::Number => f64::try_from(value.clone()).ok().map(Number::Float),
        _ => None,
    }
}

fn unsupported(op: &str, a: &Value, b: &Value) -> Error {
    let kind = if a.is_undefined() || b.is_undefined() { ErrorKind::UndefinedError } else { ErrorKind::InvalidOperation };
    Error::new(kind, format!("unsupported operand types for {op}: '{}' and '{}'", type_name(a), type_name(b)))
}

pub fn concat(a: &Value, b: &Value) -> Result<Value, Error> {
    let left = str_of(a)?;
    let right = str_of(b)?;
    values::text(left + &right)
}

fn repeated(a: &Value, count: i128) -> Result<Value, Error> {
    let count = count.max(0) as u128;
    let size = a.as_str().map(str::len).or_else(|| list_of(a).map(|l| 24 * l.len())).unwrap_or(0);
    let bytes = (size as u128).saturating_mul(count).min(1 << 60) as usize;
    spend(bytes)?;
    let count = if size == 0 { 0 } else { count as usize };
    match (a.as_str(), list_of(a)) {
        (Some(text), _) => Ok(Value::from(text.repeat(count))),
        (_, Some(items)) => values::list(items.iter().cloned().cycle().take(items.len() * count).collect()),
        _ => Ok(a.clone()),
    }
}

fn list_of(value: &Value) -> Option<&[Value]> {
    value.downcast_object_ref::<List>().map(|list| list.items.as_slice())
}

pub fn escaped(text: &str) -> Result<String, Error> {
    spend(5 * text.len())?;
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Ok(text.replace('\'', "&#39;").replace('"', "&#34;"))
}

pub fn arithmetic(op: &str, a: &Value, b: &Value) -> Result<Value, Error> {
    look(a)?;
    look(b)?;
    if let (Some(x), Some(y)) = (number(a), number(b)) {
        return of_numbers(op, x, y);
    }
    match op {
        "+" => {
            if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
                spend(x.len() + y.len())?;
                // A text that the filter `safe` gave escapes what is added to it, whether that was wanted or not.
                return match (a.is_safe(), b.is_safe()) {
                    (false, false) => Ok(Value::from([x, y].concat())),
                    (true, true) => Ok(Value::from_safe_string([x, y].concat())),
                    (true, false) => Ok(Value::from_safe_string(x.to_string() + &escaped(y)?)),
                    (false, true) => Ok(Value::from_safe_string(escaped(x)? + y)),
                };
            }
            if let (Some(x), Some(y)) = (list_of(a), list_of(b)) {
                spend(24 * (x.len() + y.len()))?;
                return values::list(x.iter().chain(y).cloned().collect());
            }
        }
        "*" => match (number(a), number(b)) {
            (_, Some(Number::Int(n))) if a.as_str().is_some() || list_of(a).is_some() => return repeated(a, n),
            (Some(Number::Int(n)), _) if b.as_str().is_some() || list_of(b).is_some() => return repeated(b, n),
            _ => {}
        },
        _ => {}
    }
    Err(unsupported(op, a, b))
}

fn of_numbers(op: &str, x: Number, y: Number) -> Result<Value, Error> {
    let too_large = || wrong(format!("an integer result of {op} has more than 128 bits"));
    let by_zero = || wrong("division by zero");
    if let (Number::Int(a), Number::Int(b)) = (x, y) {
        let made = match op {
            "+" => a.checked_add(b),
            "-" => a.checked_sub(b),
            "*" => a.checked_mul(b),
            "//" | "%" if b == 0 => return Err(by_zero()),
            // Python rounds towards minus infinity, and the remainder has the sign of the divisor.
            "//" => a.checked_div_euclid(b).map(|q| if b < 0 && a.rem_euclid(b) != 0 { q - 1 } else { q }),
            "%" => a.checked_rem_euclid(b).map(|r| if b < 0 && r != 0 { r + b } else { r }),
            "**" if b >= 0 => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            _ => return of_floats(op, x.float(), y.float()),
        };
        return made.map(|i| Number::Int(i).value()).ok_or_else(too_large);
    }
    of_floats(op, x.float(), y.float())
}

fn of_floats(op: &str, a: f64, b: f64) -> Result<Value, Error> {
    if b == 0.0 && matches!(op, "/" | "//" | "%") || a == 0.0 && b < 0.0 && op == "**" {
        return Err(wrong("division by zero"));
    }
    let floor_rem = || {
        let rest = a % b;
        if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
    };
    Ok(Value::from(match op {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => ((a - floor_rem()) / b).round(),
        "%" => floor_rem(),
        _ => a.powf(b),
    }))
}

/// `a == b`; what is neither plain, a list nor a dict equals nothing.
pub fn equal(a: &Value, b: &Value) -> Result<bool, Error> {
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        spend(x.len().min(y.len()) / 8 + 16)?;
        return Ok(x == y);
    }
    spend(16)?;
    if let (Some(x), Some(y)) = (number(a), number(b)) {
        return Ok(match (x, y) {
            (Number::Int(x), Number::Int(y)) => x == y,
            _ => x.float() == y.float(),
        });
    }
    if let (Some(x), Some(y)) = (list_of(a), list_of(b)) {
        if x.len() != y.len() {
            return Ok(false);
        }
        for (x, y) in x.iter().zip(y) {
            if !equal(x, y)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    if let (Some(x), Some(y)) = (a.downcast_object_ref::<Dict>(), b.downcast_object_ref::<Dict>()) {
        if x.items.len() != y.items.len() {
            return Ok(false);
        }
        for (key, item) in &x.items {
            look(key)?;
            match y.items.get(key) {
                Some(other) if equal(item, other)? => {}
                _ => return Ok(false),
            }
        }
        return Ok(true);
    }
    Ok(a.kind() == b.kind() && (a.is_none() || a.is_undefined()))
}

/// The order of two values, where Python has one.
pub fn order(op: &str, a: &Value, b: &Value) -> Result<Option<Ordering>, Error> {
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        spend(x.len().min(y.len()) / 8 + 1)?;
        return Ok(Some(x.cmp(y)));
    }
    spend(1)?;
    if let (Some(x), Some(y)) = (number(a), number(b)) {
        return Ok(match (x, y) {
            (Number::Int(x), Number::Int(y)) => Some(x.cmp(&y)),
            _ => x.float().partial_cmp(&y.float()),
        });
    }
    if let (Some(x), Some(y)) = (list_of(a), list_of(b)) {
        for (x, y) in x.iter().zip(y) {
            if !equal(x, y)? {
                return order(op, x, y);
            }
        }
        return Ok(Some(x.len().cmp(&y.len())));
    }
    Err(wrong(format!("'{op}' not supported between instances of '{}' and '{}'", type_name(a), type_name(b))))
}

pub fn contains(item: &Value, all: &Value) -> Result<bool, Error> {
    look(all)?;
    if let Some(text) = all.as_str() {
        let Some(part) = item.as_str() else {
            return Err(wrong(format!("'in <string>' requires string as left operand, not {}", type_name(item))));
        };
        return Ok(text.contains(part));
    }
    if let Some(items) = list_of(all) {
        for each in items {
            if equal(each, item)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    if let Some(dict) = all.downcast_object_ref::<Dict>() {
        look(item)?;
        return Ok(item.as_object().is_none() && dict.items.contains_key(item));
    }
    if all.is_undefined() {
        return Ok(false);
    }
    Err(wrong(format!("argument of type '{}' is not iterable", type_name(all))))
}

pub fn compare(op: &str, a: &Value, b: &Value) -> Result<bool, Error> {
    Ok(match op {
        "==" => equal(a, b)?,
        "!=" => !equal(a, b)?,
        "in" => contains(a, b)?,
        "not in" => !contains(a, b)?,
        _ => match order(op, a, b)? {
            None => false,
            Some(ordering) => match op {
                "<" => ordering == Ordering::Less,
                "<=" => ordering != Ordering::Greater,
                ">" => ordering == Ordering::Greater,
                _ => ordering != Ordering::Less,
            },
        },
    })
}

pub fn negative(value: &Value) -> Result<Value, Error> {
    match number(value) {
        Some(Number::Int(i)) => i.checked_neg().map(|i| Number::Int(i).value()).ok_or_else(|| wrong("too large to negate")),
        Some(Number::Float(f)) => Ok(Value::from(-f)),
        None => Err(wrong(format!("bad operand type for unary -: '{}'", type_name(value)))),
    }
}

/// `value[start:stop:step]`; None stands for what is left out.
pub fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let bound = |v: &Value| -> Result<Option<i64>, Error> {
        if v.is_none() {
            return Ok(None);
        }
        match number(v) {
            Some(Number::Int(i)) => Ok(Some(i.clamp(i64::MIN as i128 / 2, i64::MAX as i128 / 2) as i64)),
            _ => Err(wrong("slice indices must be integers or None")),
        }
    };
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "undefined cannot be sliced"));
    }
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(wrong("slice step cannot be zero"));
    }
    look(value)?;
    let chars: Vec<char>;
    let length = if let Some(text) = value.as_str() {
        spend(4 * text.len())?;
        chars = text.chars().collect();
        chars.len()
    } else if let Some(items) = list_of(value) {
        chars = Vec::new();
        items.len()
    } else {
        return Err(wrong(format!("'{}' cannot be sliced", type_name(value))));
    } as i64;
    // As PySlice_AdjustIndices.
    let within = |at: i64| {
        if at < 0 { (at + length).max(if step < 0 { -1 } else { 0 }) } else { at.min(if step < 0 { length - 1 } else { length }) }
    };
    let from = start.map_or(if step < 0 { length - 1 } else { 0 }, within);
    let to = stop.map_or(if step < 0 { -1 } else { length }, within);
    let mut places = Vec::new();
    let mut at = from;
    while if step > 0 { at < to } else { at > to } {
        places.push(at as usize);
        at += step;
    }
    spend(8 * places.len())?;
    match list_of(value) {
        Some(items) => values::list(places.into_iter().map(|i| items[i].clone()).collect()),
        None => values::text(places.into_iter().map(|i| chars[i]).collect()),
    }
}
