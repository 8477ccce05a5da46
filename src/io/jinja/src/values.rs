//! The lists and dicts that a template sees, with Python's texts, and what they are made from.
use indexmap::IndexMap;
use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt;
use std::sync::Arc;

use crate::budget::{look, spend};
use crate::methods;

/// The most that lists and dicts may be nested: everything that walks over values recurses as deep.
const MOST_DEPTH: u32 = 200;

pub fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

#[derive(Debug)]
pub struct List {
    pub items: Vec<Value>,
    depth: u32,
}

#[derive(Debug)]
pub struct Dict {
    pub items: IndexMap<Value, Value>,
    depth: u32,
}

fn depth_of(value: &Value) -> Result<u32, Error> {
    if let Some(list) = value.downcast_object_ref::<List>() {
        return Ok(list.depth);
    }
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        return Ok(dict.depth);
    }
    if value.as_object().is_some() {
        return Err(wrong(format!("a list or dict cannot hold a {}", type_name(value))));
    }
    Ok(0)
}

fn deeper(depth: u32) -> Result<u32, Error> {
    if depth >= MOST_DEPTH {
        return Err(wrong(format!("lists and dicts are nested more than {MOST_DEPTH} deep")));
    }
    Ok(depth + 1)
}

/// A list of values that are ours already; paid for.
pub fn list(items: Vec<Value>) -> Result<Value, Error> {
    spend(24 * items.len() + 48)?;
    let mut depth = 0;
    for item in &items {
        depth = depth.max(depth_of(item)?);
    }
    Ok(Value::from_object(List { items, depth: deeper(depth)? }))
}

pub fn dict(items: IndexMap<Value, Value>) -> Result<Value, Error> {
    spend(96 * items.len() + 96)?;
    let mut depth = 0;
    for (key, item) in &items {
        if key.as_object().is_some() {
            return Err(wrong(format!("unhashable type: '{}' as key of a dict", type_name(key))));
        }
        depth = depth.max(depth_of(item)?);
    }
    Ok(Value::from_object(Dict { items, depth: deeper(depth)? }))
}

pub fn text(text: String) -> Result<Value, Error> {
    spend(text.len())?;
    Ok(Value::from(text))
}

/// What a filter of minijinja gave, as values of ours.
pub fn ours(value: Value) -> Result<Value, Error> {
    fn convert(value: Value, depth: u32) -> Result<Value, Error> {
        deeper(depth)?;
        let Some(object) = value.as_object() else {
            return Ok(value);
        };
        if value.downcast_object_ref::<List>().is_some() || value.downcast_object_ref::<Dict>().is_some() {
            return Ok(value);
        }
        match object.repr() {
            ObjectRepr::Seq | ObjectRepr::Iterable => {
                let mut items = Vec::new();
                for item in value.try_iter()? {
                    spend(24)?;
                    items.push(convert(item, depth + 1)?);
                }
                list(items)
            }
            ObjectRepr::Map => {
                let mut items = IndexMap::new();
                for key in value.try_iter()? {
                    spend(96)?;
                    let item = convert(value.get_item(&key)?, depth + 1)?;
                    items.insert(key, item);
                }
                dict(items)
            }
            _ => Ok(value),
        }
    }
    if let Some(text) = value.as_str() {
        spend(text.len())?;
    }
    convert(value, 0)
}

/// The name of a value's type, as Python has it.
pub fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Bytes => "bytes",
        ValueKind::Seq | ValueKind::Iterable => "list",
        ValueKind::Map if value.downcast_object_ref::<Dict>().is_some() => "dict",
        ValueKind::Map => "namespace",
        _ => "function",
    }
}

/// `float.__repr__`: the shortest digits that give the number back, with an exponent below 1e-4 and from 1e16 on.
pub fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let text = number.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

/// `str.isprintable`: Rust escapes the same categories in a text for debugging, but for marks at its beginning.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let text: String = ['a', c].iter().collect();
    format!("{text:?}").len() == text.len() + 2
}

/// `repr(value)`, behind `out`.
pub fn write_repr(out: &mut String, value: &Value) -> Result<(), Error> {
    let before = out.len();
    if let Some(text) = value.as_str() {
        // Python quotes with " only where there is a ' and no ".
        let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
        spend(text.len())?;
        out.push(quote);
        for c in text.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c == quote => {
                    out.push('\\');
                    out.push(c);
                }
                c if !is_printable(c) => {
                    spend(10)?;
                    out.push_str(&match c as u32 {
                        code @ ..=0xff => format!("\\x{code:02x}"),
                        code @ ..=0xffff => format!("\\u{code:04x}"),
                        code => format!("\\U{code:08x}"),
                    })
                }
                c => out.push(c),
            }
        }
        out.push(quote);
    } else if let Some(list) = value.downcast_object_ref::<List>() {
        out.push('[');
        for (i, item) in list.items.iter().enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            write_repr(out, item)?;
        }
        out.push(']');
    } else if let Some(dict) = value.downcast_object_ref::<Dict>() {
        out.push('{');
        for (i, (key, item)) in dict.items.iter().enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            write_repr(out, key)?;
            out.push_str(": ");
            write_repr(out, item)?;
        }
        out.push('}');
    } else if value.is_undefined() {
        out.push_str("Undefined");
    } else if value.as_object().is_some() {
        out.push_str(&format!("<{}>", type_name(value)));
    } else {
        out.push_str(&scalar_text(value));
    }
    if value.as_object().is_none() {
        spend(out.len() - before + 32)?;
    }
    Ok(())
}

fn scalar_text(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::Number if !value.is_integer() => f64::try_from(value.clone()).map(float_text).unwrap_or_default(),
        _ => value.to_string(),
    }
}

/// `str(value)`.
pub fn str_of(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        spend(text.len())?;
        return Ok(text.to_string());
    }
    if value.as_object().is_none() {
        return Ok(scalar_text(value));
    }
    let mut out = String::new();
    write_repr(&mut out, value)?;
    Ok(out)
}

fn render(value: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut out = String::new();
    write_repr(&mut out, value).map_err(|_| fmt::Error)?;
    f.write_str(&out)
}

fn index_of(index: i64, length: usize) -> Option<usize> {
    let at = if index < 0 { index.checked_add(length as i64)? } else { index };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// `value[key]`; undefined where there is nothing.
pub fn item_of(value: &Value, key: &Value) -> Result<Value, Error> {
    let as_index = || if key.is_integer() { i64::try_from(key.clone()).ok() } else { None };
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, format!("undefined has no element {key:?}")));
    }
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        look(key)?;
        if key.as_object().is_some() {
            return Ok(Value::UNDEFINED);
        }
        return Ok(dict.items.get(key).cloned().unwrap_or(Value::UNDEFINED));
    }
    if let Some(list) = value.downcast_object_ref::<List>() {
        let at = as_index().and_then(|index| index_of(index, list.items.len()));
        return Ok(at.map_or(Value::UNDEFINED, |at| list.items[at].clone()));
    }
    if let Some(text) = value.as_str() {
        spend(text.len() + 1)?;
        let Some(index) = as_index() else {
            return Ok(Value::UNDEFINED);
        };
        let at = index_of(index, text.chars().count());
        return Ok(at.and_then(|at| text.chars().nth(at)).map_or(Value::UNDEFINED, |c| Value::from(c.to_string())));
    }
    if value.as_object().is_some() && key.as_str().is_some() {
        return value.get_item(key);
    }
    Ok(Value::UNDEFINED)
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        // A group of groupby has these names in Jinja2. Here it is a list, and whoever uses them gets this error.
        if matches!(key.as_str(), Some("grouper" | "list")) {
            let message = "'grouper' and 'list' of groupby are not supported: take [0] and [1]";
            return Some(Value::from(Error::new(ErrorKind::InvalidOperation, message)));
        }
        self.items.get(key.as_usize()?).cloned()
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }
    fn call_method(self: &Arc<Self>, _: &State<'_, '_>, name: &str, args: &[Value]) -> Result<Value, Error> {
        methods::of_list(&self.items, name, args)
    }
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        render(&Value::from_dyn_object(self.clone()), f)
    }
}

impl Object for Dict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        if key.as_object().is_some() {
            return None;
        }
        self.items.get(key).cloned()
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        // By number, as a copy of the keys would cost what nothing pays for.
        let this = self.clone();
        let mut next = 0;
        Enumerator::Iter(Box::new(std::iter::from_fn(move || {
            next += 1;
            this.items.get_index(next - 1).map(|(key, _)| key.clone())
        })))
    }
    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
    fn call_method(self: &Arc<Self>, _: &State<'_, '_>, name: &str, args: &[Value]) -> Result<Value, Error> {
        methods::of_dict(&self.items, name, args)
    }
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        render(&Value::from_dyn_object(self.clone()), f)
    }
}
