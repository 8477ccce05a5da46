//! JSON into values, and the filter `tojson` as the package transformers has it: `json.dumps(x, ensure_ascii=False, ...)`.
use indexmap::IndexMap;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, Value};

use crate::budget::spend;
use crate::values::{self, float_text, wrong, Dict, List};

/// A value of ours from JSON, which serde_json has held to 128 levels.
pub fn value_from(json: serde_json::Value) -> Result<Value, Error> {
    use serde_json::Value as Json;
    match json {
        Json::Null => Ok(Value::from(())),
        Json::Bool(b) => Ok(Value::from(b)),
        Json::Number(n) => Ok(match (n.as_i64(), n.as_u64(), n.as_f64()) {
            (Some(i), _, _) => Value::from(i),
            (_, Some(u), _) => Value::from(u),
            (_, _, f) => Value::from(f.unwrap_or(f64::NAN)),
        }),
        Json::String(s) => values::text(s),
        Json::Array(items) => values::list(items.into_iter().map(value_from).collect::<Result<_, _>>()?),
        Json::Object(items) => values::dict(
            items
                .into_iter()
                .map(|(key, item)| Ok((Value::from(key), value_from(item)?)))
                .collect::<Result<IndexMap<_, _>, Error>>()?,
        ),
    }
}

struct Style {
    indent: Option<String>,
    between: String,
    colon: String,
    ascii: bool,
    sorted: bool,
}

fn write_string(out: &mut String, text: &str, ascii: bool) -> Result<(), Error> {
    let before = out.len();
    spend(text.len())?;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (ascii && !c.is_ascii()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    spend(out.len() - before)
}

fn break_line(out: &mut String, style: &Style, level: usize) -> Result<(), Error> {
    if let Some(indent) = &style.indent {
        spend(1 + indent.len() * level)?;
        out.push('\n');
        for _ in 0..level {
            out.push_str(indent);
        }
    }
    Ok(())
}

fn write_scalar(out: &mut String, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
        ValueKind::Number => {
            let number = f64::try_from(value.clone())?;
            out.push_str(&match number {
                n if n.is_nan() => "NaN".into(),
                n if n.is_infinite() => if n > 0.0 { "Infinity" } else { "-Infinity" }.to_string(),
                n => float_text(n),
            });
        }
        _ => return Err(wrong(format!("Object of type {} is not JSON serializable", values::type_name(value)))),
    }
    spend(32)
}

fn write_json(out: &mut String, value: &Value, style: &Style, level: usize) -> Result<(), Error> {
    if let Some(text) = value.as_str() {
        return write_string(out, text, style.ascii);
    }
    if let Some(list) = value.downcast_object_ref::<List>() {
        out.push('[');
        for (i, item) in list.items.iter().enumerate() {
            out.push_str(if i > 0 { &style.between } else { "" });
            break_line(out, style, level + 1)?;
            write_json(out, item, style, level + 1)?;
        }
        if !list.items.is_empty() {
            break_line(out, style, level)?;
        }
        out.push(']');
        return spend(32 + (style.between.len() + 1) * list.items.len());
    }
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        let mut items: Vec<(&Value, &Value)> = dict.items.iter().collect();
        if style.sorted {
            spend(16 * items.len())?;
            if items.iter().any(|(key, _)| key.as_str().is_none()) && items.len() > 1 {
                return Err(wrong("only texts can be sorted as keys"));
            }
            items.sort_by(|a, b| a.0.as_str().cmp(&b.0.as_str()));
        }
        out.push('{');
        for (i, (key, item)) in items.iter().enumerate() {
            out.push_str(if i > 0 { &style.between } else { "" });
            break_line(out, style, level + 1)?;
            match key.as_str() {
                Some(text) => write_string(out, text, style.ascii)?,
                None => {
                    out.push('"');
                    write_scalar(out, key)?;
                    out.push('"');
                }
            }
            out.push_str(&style.colon);
            write_json(out, item, style, level + 1)?;
        }
        if !items.is_empty() {
            break_line(out, style, level)?;
        }
        out.push('}');
        return spend(32 + (style.between.len() + style.colon.len() + 1) * items.len());
    }
    write_scalar(out, value)
}

/// `tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub fn to_json(value: Value, args: minijinja::value::Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    if args.0.len() > names.len() {
        return Err(wrong("tojson takes at most 4 arguments"));
    }
    let arg = |i: usize| -> Result<Option<Value>, Error> {
        let given = match args.0.get(i) {
            Some(value) => Some(value.clone()),
            None => kwargs.get::<Option<Value>>(names[i])?,
        };
        Ok(given.filter(|value| !value.is_undefined() && !value.is_none()))
    };
    let ascii = arg(0)?.is_some_and(|v| v.is_true());
    let indent = match arg(1)? {
        None => None,
        Some(v) if v.as_str().is_some() => Some(v.as_str().unwrap_or_default().to_string()),
        Some(v) => {
            let width = i64::try_from(v)?.max(0) as usize;
            spend(width)?;
            Some(" ".repeat(width))
        }
    };
    let (between, colon) = match arg(2)? {
        None => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
        Some(v) => {
            let first = values::item_of(&v, &Value::from(0))?;
            let second = values::item_of(&v, &Value::from(1))?;
            match (first.as_str(), second.as_str()) {
                (Some(a), Some(b)) => (a.to_string(), b.to_string()),
                _ => return Err(wrong("separators of tojson are two texts")),
            }
        }
    };
    let sorted = arg(3)?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let mut out = String::new();
    write_json(&mut out, &value, &Style { indent, between, colon, ascii, sorted }, 0)?;
    Ok(Value::from(out))
}
