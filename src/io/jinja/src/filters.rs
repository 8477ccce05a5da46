//! Filters and tests, as Jinja2 has them.
use indexmap::IndexMap;
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, State, Value};
use std::cmp::Ordering;

use crate::budget::{look, look_deep, spend};
use crate::methods::{self, capitalized};
use crate::ops::{compare, equal, escaped, order};
use crate::values::{self, item_of, ours, str_of, type_name, wrong, Dict, List};

/// What a loop over the value sees; paid for.
fn each(value: &Value) -> Result<Vec<Value>, Error> {
    if let Some(list) = value.downcast_object_ref::<List>() {
        spend(24 * list.items.len())?;
        return Ok(list.items.clone());
    }
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        spend(24 * dict.items.len())?;
        return Ok(dict.items.keys().cloned().collect());
    }
    if let Some(text) = value.as_str() {
        spend(28 * text.len())?;
        return Ok(text.chars().map(|c| Value::from(c.to_string())).collect());
    }
    if value.is_undefined() {
        return Ok(Vec::new());
    }
    Err(wrong(format!("'{}' object is not iterable", type_name(value))))
}

/// `value.a.b` or `value.a.0`.
fn path_of(value: &Value, path: &Value) -> Result<Value, Error> {
    let Some(text) = path.as_str() else {
        return item_of(value, path);
    };
    let mut at = value.clone();
    for name in text.split('.') {
        let key = name.parse::<i64>().map(Value::from).unwrap_or_else(|_| Value::from(name));
        at = item_of(&at, &key)?;
    }
    Ok(at)
}

fn sorted_by_key(items: Vec<Value>, key: impl Fn(&Value) -> Result<Value, Error>, reverse: bool) -> Result<Vec<Value>, Error> {
    let mut keyed = Vec::new();
    for item in items {
        spend(48)?;
        keyed.push((key(&item)?, item));
    }
    let mut failure = None;
    keyed.sort_by(|a, b| {
        if failure.is_some() {
            return Ordering::Equal;
        }
        match order("<", &a.0, &b.0) {
            Ok(ordering) if reverse => ordering.unwrap_or(Ordering::Equal).reverse(),
            Ok(ordering) => ordering.unwrap_or(Ordering::Equal),
            Err(error) => {
                failure = Some(error);
                Ordering::Equal
            }
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
    }
}

fn without_case(value: Value, case_sensitive: bool) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) if !case_sensitive => values::text(text.to_lowercase()),
        _ => Ok(value),
    }
}

fn flag(given: Option<bool>, kwargs: &Kwargs, name: &str) -> Result<bool, Error> {
    Ok(match given {
        Some(given) => given,
        None => kwargs.get::<Option<bool>>(name)?.unwrap_or(false),
    })
}

fn sort(value: Value, reverse: Option<bool>, case: Option<bool>, kwargs: Kwargs) -> Result<Value, Error> {
    let reverse = flag(reverse, &kwargs, "reverse")?;
    let case = flag(case, &kwargs, "case_sensitive")?;
    let attribute = kwargs.get::<Option<Value>>("attribute")?;
    kwargs.assert_all_used()?;
    let key = |item: &Value| {
        let by = match &attribute {
            Some(path) => path_of(item, path)?,
            None => item.clone(),
        };
        without_case(by, case)
    };
    values::list(sorted_by_key(each(&value)?, key, reverse)?)
}

fn dictsort(value: Value, case: Option<bool>, by: Option<String>, reverse: Option<bool>, kwargs: Kwargs) -> Result<Value, Error> {
    let case = flag(case, &kwargs, "case_sensitive")?;
    let reverse = flag(reverse, &kwargs, "reverse")?;
    let by = match by {
        Some(by) => by,
        None => kwargs.get::<Option<String>>("by")?.unwrap_or("key".into()),
    };
    kwargs.assert_all_used()?;
    let place = match by.as_str() {
        "key" => 0,
        "value" => 1,
        _ => return Err(wrong("You can only sort by either \"key\" or \"value\"")),
    };
    let pairs = each(&items(value)?)?;
    let key = |pair: &Value| without_case(item_of(pair, &Value::from(place))?, case);
    values::list(sorted_by_key(pairs, key, reverse)?)
}

fn items(value: Value) -> Result<Value, Error> {
    match value.downcast_object_ref::<Dict>() {
        Some(dict) => methods::pairs(&dict.items),
        None if value.is_undefined() => values::list(Vec::new()),
        None => Err(wrong("Can only get item pairs from a mapping.")),
    }
}

fn select(state: &State, value: &Value, by: Option<&Value>, args: &[Value], wanted: bool) -> Result<Value, Error> {
    let mut kept = Vec::new();
    if !value.is_true() {
        return values::list(kept); // None and 0, too, as Jinja2 has it
    }
    for item in each(value)? {
        let seen = match by {
            Some(path) => path_of(&item, path)?,
            None => item.clone(),
        };
        let passes = match args.first() {
            None => seen.is_true(),
            Some(name) => {
                look_deep(&seen)?;
                let name = name.as_str().ok_or_else(|| wrong("the name of a test is a text"))?;
                let mut all = vec![seen];
                all.extend_from_slice(&args[1..]);
                state.perform_test(name, &all)?
            }
        };
        if passes == wanted {
            kept.push(item);
        }
    }
    values::list(kept)
}

fn map(state: &State, value: Value, args: Rest<Value>) -> Result<Value, Error> {
    let (positional, kwargs): (&[Value], Kwargs) = minijinja::value::from_args(&args.0)?;
    let attribute = kwargs.get::<Option<Value>>("attribute")?;
    let default = kwargs.get::<Option<Value>>("default")?;
    let mut made = Vec::new();
    if !value.is_true() {
        return values::list(made);
    }
    for item in each(&value)? {
        made.push(match (&attribute, positional.first()) {
            (Some(path), _) => {
                let found = path_of(&item, path)?;
                if found.is_undefined() { default.clone().unwrap_or(found) } else { found }
            }
            (None, Some(name)) => {
                look_deep(&item)?;
                let name = name.as_str().ok_or_else(|| wrong("the name of a filter is a text"))?;
                let mut all = vec![item];
                all.extend_from_slice(&args.0[1..]);
                ours(state.apply_filter(name, &all)?)?
            }
            _ => return Err(wrong("map requires a filter argument")),
        });
    }
    values::list(made)
}

fn unique(value: Value, case: Option<bool>, kwargs: Kwargs) -> Result<Value, Error> {
    let case = flag(case, &kwargs, "case_sensitive")?;
    let attribute = kwargs.get::<Option<Value>>("attribute")?;
    kwargs.assert_all_used()?;
    let mut found: IndexMap<Value, Value> = IndexMap::new();
    for item in each(&value)? {
        let key = match &attribute {
            Some(path) => path_of(&item, path)?,
            None => item.clone(),
        };
        if key.as_object().is_some() {
            return Err(wrong(format!("unhashable type: '{}'", type_name(&key))));
        }
        look(&key)?;
        spend(96)?;
        found.entry(without_case(key, case)?).or_insert(item);
    }
    values::list(found.into_values().collect())
}

fn extreme(value: &Value, case: bool, wanted: Ordering) -> Result<Value, Error> {
    let mut best: Option<(Value, Value)> = None;
    for item in each(value)? {
        let key = without_case(item.clone(), case)?;
        let better = match &best {
            None => true,
            Some((found, _)) => order("<", &key, found)? == Some(wanted),
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or(Value::UNDEFINED, |(_, item)| item))
}

fn sum(value: Value, kwargs: Kwargs) -> Result<Value, Error> {
    let attribute = kwargs.get::<Option<Value>>("attribute")?;
    let mut all = kwargs.get::<Option<Value>>("start")?.unwrap_or_else(|| Value::from(0));
    kwargs.assert_all_used()?;
    for item in each(&value)? {
        let item = match &attribute {
            Some(path) => path_of(&item, path)?,
            None => item,
        };
        all = crate::ops::arithmetic("+", &all, &item)?;
    }
    Ok(all)
}

fn groupby(value: Value, attribute: Value) -> Result<Value, Error> {
    let attribute = plain(attribute)?;
    let pairs = sorted_by_key(each(&value)?, |item| without_case(path_of(item, &attribute)?, false), false)?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for item in pairs {
        let key = path_of(&item, &attribute)?;
        match groups.last_mut() {
            Some((last, members)) if equal(&without_case(last.clone(), false)?, &without_case(key.clone(), false)?)? => {
                members.push(item)
            }
            _ => groups.push((key, vec![item])),
        }
    }
    let made: Result<_, Error> = groups.into_iter().map(|(key, all)| values::list(vec![key, values::list(all)?])).collect();
    values::list(made?)
}

fn indent(value: Value, args: Rest<Value>) -> Result<Value, Error> {
    let (positional, kwargs): (&[Value], Kwargs) = minijinja::value::from_args(&args.0)?;
    let arg = |i: usize, name: &str| -> Result<Option<Value>, Error> {
        match positional.get(i) {
            Some(value) => Ok(Some(value.clone())),
            None => kwargs.get::<Option<Value>>(name),
        }
    };
    let width = arg(0, "width")?.unwrap_or_else(|| Value::from(4));
    let (first, blank) = (arg(1, "first")?.is_some_and(|v| v.is_true()), arg(2, "blank")?.is_some_and(|v| v.is_true()));
    let pad = match width.as_str() {
        Some(text) => text.to_string(),
        None => {
            let count = i64::try_from(width)?.max(0) as usize;
            spend(count)?;
            " ".repeat(count)
        }
    };
    kwargs.assert_all_used()?;
    // Jinja2 splits the lines of the text with a line break behind it, so that a break at its end counts.
    let text = str_of(&value)? + "\n";
    let lines = methods::lines_of(&text, false);
    spend(lines.len().saturating_mul(pad.len() + 1))?;
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if if i == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&pad);
        }
        out.push_str(line);
    }
    values::text(out)
}

/// The digits of a number as Python's int takes them: single underscores between digits, a prefix where the base has one.
fn int_of(text: &str, base: u32) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.get(..2) {
        Some("0b") if matches!(base, 0 | 2) => (2, lower[2..].strip_prefix('_').unwrap_or(&lower[2..])),
        Some("0o") if matches!(base, 0 | 8) => (8, lower[2..].strip_prefix('_').unwrap_or(&lower[2..])),
        Some("0x") if matches!(base, 0 | 16) => (16, lower[2..].strip_prefix('_').unwrap_or(&lower[2..])),
        _ if base == 0 && lower.len() > 1 && lower.starts_with('0') && lower.trim_matches(['0', '_']).len() > 0 => return None,
        _ => (if base == 0 { 10 } else { base }, lower.as_str()),
    };
    let digits = without_underscores(digits)?;
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    i128::from_str_radix(&format!("{sign}{digits}"), base).ok()
}
/// None where an underscore is not between two digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(|c| c.is_ascii_alphanumeric());
    let right = (0..bytes.len()).all(|i| bytes[i] != b'_' || (is_digit(i.checked_sub(1)) && is_digit(Some(i + 1))));
    right.then(|| text.replace('_', ""))
}
fn float_of(text: &str) -> Option<f64> {
    without_underscores(text)?.parse().ok()
}

/// An argument of any type: not the keywords that a caller gave instead.
fn plain(value: Value) -> Result<Value, Error> {
    match value.is_kwargs() {
        true => Err(wrong("a keyword is given that is not known here")),
        false => Ok(value),
    }
}
/// An argument that is given by its place, by name, or not at all.
fn named(given: Option<Value>, kwargs: &Kwargs, name: &str) -> Result<Option<Value>, Error> {
    match given {
        None => kwargs.get::<Option<Value>>(name),
        given => Ok(given),
    }
}

fn int(value: Value, default: Option<Value>, base: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let default = named(default, &kwargs, "default")?.unwrap_or_else(|| Value::from(0));
    let base = named(base, &kwargs, "base")?.map_or(Ok(10), u32::try_from)?;
    kwargs.assert_all_used()?;
    if base == 1 || base > 36 {
        return Err(wrong("the base of an int is 0, or 2 to 36"));
    }
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(value.is_true() as i64),
        ValueKind::Number if value.is_integer() => value,
        ValueKind::Number => {
            let number = f64::try_from(value)?;
            if number.is_finite() { Value::from(number as i128) } else { default }
        }
        ValueKind::String => {
            let text = methods::strip(value.as_str().unwrap_or_default(), None, true, true);
            match (int_of(text, base), float_of(text)) {
                (Some(i), _) => Value::from(i),
                (_, Some(f)) if f.is_finite() => Value::from(f as i128),
                _ => default,
            }
        }
        _ => default,
    })
}

fn float(value: Value, default: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let default = named(default, &kwargs, "default")?.unwrap_or_else(|| Value::from(0.0));
    kwargs.assert_all_used()?;
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(value.is_true() as i64 as f64),
        ValueKind::Number => Value::from(f64::try_from(value)?),
        ValueKind::String => {
            let text = methods::strip(value.as_str().unwrap_or_default(), None, true, true);
            float_of(text).map(Value::from).unwrap_or(default)
        }
        _ => default,
    })
}

fn round(value: Value, precision: Option<Value>, method: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let precision = named(precision, &kwargs, "precision")?.map_or(Ok(0), i32::try_from)?;
    let method = named(method, &kwargs, "method")?.map_or(Ok("common".to_string()), |v| str_of(&v))?;
    kwargs.assert_all_used()?;
    if !(0..=100).contains(&precision) {
        return Err(wrong("the precision of round is 0 to 100 here"));
    }
    let is_integer = value.is_integer();
    let number = f64::try_from(value.clone())?;
    let scale = 10f64.powi(precision);
    let made = match method.as_str() {
        "common" if is_integer => return Ok(value),
        // Decimal digits of the exact value, halves to the even neighbour, as Python rounds.
        "common" if number.is_finite() => format!("{:.*}", precision as usize, number).parse().unwrap_or(number),
        "common" => number,
        "ceil" => (number * scale).ceil() / scale,
        "floor" => (number * scale).floor() / scale,
        _ => return Err(wrong("method must be common, ceil or floor")),
    };
    Ok(Value::from(made))
}

fn length(value: Value) -> Result<usize, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.chars().count());
    }
    if let Some(list) = value.downcast_object_ref::<List>() {
        return Ok(list.items.len());
    }
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        return Ok(dict.items.len());
    }
    match value.is_undefined() {
        true => Ok(0),
        false => Err(wrong(format!("object of type '{}' has no len()", type_name(&value)))),
    }
}

fn join(value: Value, between: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let between = match between {
        Some(between) => str_of(&between)?,
        None => kwargs.get::<Option<String>>("d")?.unwrap_or_default(),
    };
    let mut parts = each(&value)?;
    if let Some(path) = kwargs.get::<Option<Value>>("attribute")? {
        for part in &mut parts {
            *part = path_of(part, &path)?;
        }
    }
    kwargs.assert_all_used()?;
    methods::join(&between, &parts, true)
}

fn title(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in text.chars() {
        // As Jinja2 splits: at white space and at -(){}[]<.
        let is_break = methods::is_space(c) || "-({[<".contains(c);
        if inside && !is_break { out.extend(c.to_lowercase()) } else { out.extend(c.to_uppercase()) }
        inside = !is_break;
    }
    out
}

fn reversed(value: Value) -> Result<Value, Error> {
    if value.as_str().is_some() {
        return crate::ops::slice(&value, &Value::from(()), &Value::from(()), &Value::from(-1));
    }
    let mut all = each(&value)?;
    all.reverse();
    values::list(all)
}

fn batch(value: Value, size: i64, fill: Option<Value>) -> Result<Value, Error> {
    if size < 1 {
        return Err(wrong("the size of a batch is 1 or more"));
    }
    let fill = fill.map(plain).transpose()?;
    let mut made = Vec::new();
    for part in each(&value)?.chunks(size as usize) {
        let mut part = part.to_vec();
        if let Some(fill) = &fill {
            spend((size as usize).saturating_mul(24))?;
            part.resize(size as usize, fill.clone());
        }
        made.push(values::list(part)?);
    }
    values::list(made)
}

fn escape(value: Value) -> Result<Value, Error> {
    match value.is_safe() {
        true => Ok(value),
        false => Ok(Value::from_safe_string(escaped(&str_of(&value)?)?)),
    }
}

pub const FILTERS: [&str; 43] = [
    "abs", "attr", "batch", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "format",
    "groupby", "indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min", "reject",
    "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "sort", "string", "sum", "title", "tojson",
    "trim", "unique", "upper", "wordcount", "forceescape",
];

pub const TESTS: [&str; 39] = [
    "!=", "<", "<=", "==", ">", ">=", "boolean", "callable", "defined", "divisibleby", "eq", "equalto", "escaped", "even",
    "false", "filter", "float", "ge", "greaterthan", "gt", "in", "integer", "iterable", "le", "lessthan", "lower", "lt",
    "mapping", "ne", "none", "number", "odd", "sameas", "sequence", "string", "test", "true", "undefined", "upper",
];

pub fn add_to(env: &mut Environment) {
    env.add_filter("tojson", crate::json::to_json);
    env.add_filter("items", items);
    env.add_filter("sort", sort);
    env.add_filter("dictsort", dictsort);
    env.add_filter("map", map);
    env.add_filter("unique", unique);
    env.add_filter("groupby", groupby);
    env.add_filter("sum", sum);
    env.add_filter("indent", indent);
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_filter("round", round);
    env.add_filter("join", join);
    env.add_filter("batch", batch);
    env.add_filter("reverse", reversed);
    env.add_filter("length", length);
    env.add_filter("count", length);
    env.add_filter("safe", |v: Value| str_of(&v).map(Value::from_safe_string));
    env.add_filter("escape", escape);
    env.add_filter("e", escape);
    env.add_filter("forceescape", |v: Value| Ok::<_, Error>(Value::from_safe_string(escaped(&str_of(&v)?)?)));
    env.add_filter("string", |v: Value| match v.as_str() {
        Some(_) => Ok(v),
        None => str_of(&v).map(Value::from),
    });
    env.add_filter("upper", |v: Value| values::text(str_of(&v)?.to_uppercase()));
    env.add_filter("lower", |v: Value| values::text(str_of(&v)?.to_lowercase()));
    env.add_filter("title", |v: Value| values::text(title(&str_of(&v)?)));
    env.add_filter("capitalize", |v: Value| values::text(capitalized(&str_of(&v)?)));
    env.add_filter("trim", |v: Value, chars: Option<Value>, kwargs: Kwargs| {
        let chars = named(chars, &kwargs, "chars")?.map(|v| str_of(&v)).transpose()?;
        kwargs.assert_all_used()?;
        values::text(methods::strip(&str_of(&v)?, chars.as_deref(), true, true).into())
    });
    env.add_filter("replace", |v: Value, old: Value, new: Value, count: Option<i64>| {
        methods::replaced(&str_of(&v)?, &str_of(&old)?, &str_of(&new)?, count)
    });
    env.add_filter("wordcount", |v: Value| {
        Ok::<_, Error>(str_of(&v)?.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).count())
    });
    env.add_filter("format", |state: &State, v: Value, args: Rest<Value>| {
        methods::percent_format(state, &Value::from(str_of(&v)?), &args.0)
    });
    env.add_filter("list", |v: Value| values::list(each(&v)?));
    env.add_filter("first", |v: Value| Ok::<_, Error>(each(&v)?.first().cloned().unwrap_or(Value::UNDEFINED)));
    env.add_filter("last", |v: Value| Ok::<_, Error>(each(&v)?.last().cloned().unwrap_or(Value::UNDEFINED)));
    env.add_filter("attr", |v: Value, name: Value| match type_name(&v) {
        // An item is no attribute in Python, and methods are no values here.
        kind @ ("dict" | "list" | "str") => Err(wrong(format!("attr of a {kind} is not supported"))),
        _ => path_of(&v, &plain(name)?),
    });
    env.add_filter("abs", minijinja::filters::abs);
    for name in ["default", "d"] {
        env.add_filter(name, |v: Value, other: Option<Value>, lax: Option<bool>, kwargs: Kwargs| {
            let lax = flag(lax, &kwargs, "boolean")?;
            let other = match other {
                Some(other) => other,
                None => kwargs.get::<Option<Value>>("default_value")?.unwrap_or_else(|| Value::from("")),
            };
            kwargs.assert_all_used()?;
            Ok::<_, Error>(if v.is_undefined() || (lax && !v.is_true()) { other } else { v })
        });
    }
    env.add_filter("max", |v: Value, case: Option<bool>| extreme(&v, case.unwrap_or(false), Ordering::Greater));
    env.add_filter("min", |v: Value, case: Option<bool>| extreme(&v, case.unwrap_or(false), Ordering::Less));
    for (name, wanted) in [("select", true), ("reject", false)] {
        env.add_filter(name, move |state: &State, v: Value, args: Rest<Value>| select(state, &v, None, &args.0, wanted));
    }
    for (name, wanted) in [("selectattr", true), ("rejectattr", false)] {
        env.add_filter(name, move |state: &State, v: Value, by: Value, args: Rest<Value>| {
            select(state, &v, Some(&by), &args.0, wanted)
        });
    }

    let is_sized = |v: Value| v.as_str().is_some() || v.is_undefined() || matches!(v.kind(), ValueKind::Seq | ValueKind::Map);
    env.add_test("sequence", is_sized);
    env.add_test("iterable", is_sized);
    env.add_test("mapping", |v: Value| v.downcast_object_ref::<Dict>().is_some());
    env.add_test("string", |v: Value| v.as_str().is_some());
    env.add_test("number", |v: Value| matches!(v.kind(), ValueKind::Bool | ValueKind::Number));
    env.add_test("integer", |v: Value| v.kind() == ValueKind::Number && v.is_integer());
    env.add_test("float", |v: Value| v.kind() == ValueKind::Number && !v.is_integer());
    env.add_test("boolean", |v: Value| v.kind() == ValueKind::Bool);
    env.add_test("true", |v: Value| v.kind() == ValueKind::Bool && v.is_true());
    env.add_test("false", |v: Value| v.kind() == ValueKind::Bool && !v.is_true());
    env.add_test("none", |v: Value| v.is_none());
    env.add_test("defined", |v: Value| !v.is_undefined());
    env.add_test("undefined", |v: Value| v.is_undefined());
    env.add_test("escaped", |v: Value| v.is_safe());
    env.add_test("callable", |v: Value| v.as_object().is_some() && matches!(v.kind(), ValueKind::Plain));
    env.add_test("filter", |v: Value| v.as_str().is_some_and(|name| FILTERS.contains(&name)));
    env.add_test("test", |v: Value| v.as_str().is_some_and(|name| TESTS.contains(&name)));
    env.add_test("lower", |v: Value| Ok::<_, Error>(methods::is_in_case(&str_of(&v)?, false)));
    env.add_test("upper", |v: Value| Ok::<_, Error>(methods::is_in_case(&str_of(&v)?, true)));
    let rest = |v: &Value, by: i64| crate::ops::arithmetic("%", v, &Value::from(by)).and_then(|r| Ok(i64::try_from(r)?));
    env.add_test("odd", move |v: Value| Ok::<_, Error>(rest(&v, 2)? == 1));
    env.add_test("even", move |v: Value| Ok::<_, Error>(rest(&v, 2)? == 0));
    env.add_test("divisibleby", move |v: Value, by: i64| Ok::<_, Error>(rest(&v, by)? == 0));
    // Identity means something for what there is one of; for the rest, equal values of one type will do.
    env.add_test("sameas", |a: Value, b: Value| Ok::<_, Error>(a.kind() == b.kind() && equal(&a, &b)?));
    for (names, op) in [
        (["eq", "==", "equalto"], "=="), (["ne", "!=", "ne"], "!="), (["lt", "<", "lessthan"], "<"),
        (["le", "<=", "in"], "<="), (["gt", ">", "greaterthan"], ">"), (["ge", ">=", "in"], ">="),
    ] {
        for name in names {
            let op = if name == "in" { "in" } else { op };
            env.add_test(name, move |a: Value, b: Value| compare(op, &a, &b));
        }
    }
}
