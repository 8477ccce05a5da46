//! The methods of Python's strings, lists and dicts that change nothing: those that a sandboxed template may call.
use indexmap::IndexMap;
use minijinja::value::from_args;
use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, State, Value};

use crate::budget::{look, spend};
use crate::ops::equal;
use crate::values::{self, str_of, type_name, wrong, List};

/// What `str.strip` and `str.split` take for white space.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn unknown(type_name: &str, method: &str) -> Error {
    Error::new(
        ErrorKind::UnknownMethod,
        format!("'{type_name}' has no method '{method}' that a template may call"),
    )
}

pub fn of_list(items: &[Value], method: &str, args: &[Value]) -> Result<Value, Error> {
    spend(items.len() + 1)?;
    match method {
        "count" | "index" => {
            let (wanted,): (Value,) = from_args(args)?;
            let mut places = Vec::new();
            for (i, item) in items.iter().enumerate() {
                if equal(item, &wanted)? {
                    places.push(i);
                }
            }
            match (method, places.first()) {
                ("count", _) => Ok(Value::from(places.len())),
                (_, Some(first)) => Ok(Value::from(*first)),
                _ => Err(wrong("the value is not in the list")),
            }
        }
        "copy" => values::list(items.to_vec()),
        _ => Err(unknown("list", method)),
    }
}

pub fn of_dict(items: &IndexMap<Value, Value>, method: &str, args: &[Value]) -> Result<Value, Error> {
    match method {
        "get" => {
            let (key, other): (Value, Option<Value>) = from_args(args)?;
            if other.as_ref().is_some_and(|other| other.is_kwargs()) {
                return Err(wrong("dict.get() takes no keyword arguments"));
            }
            look(&key)?;
            let found = if key.as_object().is_some() { None } else { items.get(&key).cloned() };
            Ok(found.or(other).unwrap_or_else(|| Value::from(())))
        }
        "items" => pairs(items),
        "keys" => values::list(items.keys().cloned().collect()),
        "values" => values::list(items.values().cloned().collect()),
        "copy" => values::dict(items.clone()),
        _ => Err(unknown("dict", method)),
    }
}

pub fn pairs(items: &IndexMap<Value, Value>) -> Result<Value, Error> {
    spend(48 * items.len())?;
    let pairs: Result<_, Error> = items.iter().map(|(k, v)| values::list(vec![k.clone(), v.clone()])).collect();
    values::list(pairs?)
}

pub fn strip<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let is_cut = |c: char| chars.map_or(is_space(c), |chars| chars.contains(c));
    let text = if left { text.trim_start_matches(is_cut) } else { text };
    if right { text.trim_end_matches(is_cut) } else { text }
}

pub fn replaced(text: &str, old: &str, new: &str, most: Option<i64>) -> Result<Value, Error> {
    let most = most.filter(|n| *n >= 0).map_or(usize::MAX, |n| n as usize);
    spend(text.len())?;
    let found = text.matches(old).take(most).count();
    spend(found.saturating_mul(new.len()))?;
    Ok(Value::from(text.replacen(old, new, found)))
}

fn texts(parts: Vec<&str>) -> Result<Value, Error> {
    spend(32 * parts.len() + parts.iter().map(|p| p.len()).sum::<usize>())?;
    values::list(parts.into_iter().map(Value::from).collect())
}

fn split_at_spaces(text: &str, most: usize, from_right: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = strip(text, None, !from_right, from_right);
    while !rest.is_empty() {
        if parts.len() == most {
            parts.push(rest);
            break;
        }
        if from_right {
            let begin = rest.char_indices().rev().find(|(_, c)| is_space(*c)).map_or(0, |(i, c)| i + c.len_utf8());
            parts.push(&rest[begin..]);
            rest = strip(&rest[..begin], None, false, true);
        } else {
            let end = rest.find(is_space).unwrap_or(rest.len());
            parts.push(&rest[..end]);
            rest = strip(&rest[end..], None, true, false);
        }
    }
    if from_right {
        parts.reverse();
    }
    parts
}

fn split(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (sep, most, kwargs): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let sep = match sep {
        None => kwargs.get::<Option<Value>>("sep")?,
        sep => sep,
    };
    let most = match most {
        None => kwargs.get::<Option<i64>>("maxsplit")?,
        most => most,
    };
    kwargs.assert_all_used()?;
    let most = most.filter(|n| *n >= 0).map_or(usize::MAX - 1, |n| n as usize);
    spend(4 * text.len())?;
    let Some(sep) = sep.filter(|s| !s.is_none()) else {
        return texts(split_at_spaces(text, most, from_right));
    };
    let Some(sep) = sep.as_str() else {
        return Err(wrong(format!("must be str or None, not {}", type_name(&sep))));
    };
    if sep.is_empty() {
        return Err(wrong("empty separator"));
    }
    let mut parts: Vec<&str> =
        if from_right { text.rsplitn(most + 1, sep).collect() } else { text.splitn(most + 1, sep).collect() };
    if from_right {
        parts.reverse();
    }
    texts(parts)
}

/// As `str.splitlines`.
pub fn lines_of(text: &str, keep: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut begin, mut at) = (0, 0);
    let is_break = |c: char| {
        matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}' | '\u{1d}' | '\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    while let Some(c) = text[at..].chars().next() {
        let next = at + c.len_utf8();
        if is_break(c) {
            let end = if c == '\r' && text[next..].starts_with('\n') { next + 1 } else { next };
            parts.push(&text[begin..if keep { end } else { at }]);
            begin = end;
            at = end;
        } else {
            at = next;
        }
    }
    if begin < text.len() {
        parts.push(&text[begin..]);
    }
    parts
}

/// As `str.isupper` and `str.islower`: there is a letter with case, and none of the other case.
pub fn is_in_case(text: &str, upper: bool) -> bool {
    let is_met = |c: char| if upper { c.is_uppercase() } else { c.is_lowercase() };
    let is_other = |c: char| if upper { c.is_lowercase() } else { c.is_uppercase() };
    text.chars().any(is_met) && !text.chars().any(is_other)
}

/// Rust does not know which numerals beyond ASCII Python counts as digits.
fn are_digits(text: &str, method: &str) -> Result<Value, Error> {
    if text.chars().any(|c| !c.is_ascii() && (c.is_numeric() || method == "isnumeric")) {
        return Err(wrong(format!("str.{method} of other than ASCII digits is not supported")));
    }
    Ok(Value::from(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())))
}

fn any_of(args: &[Value], method: &str, test: impl Fn(&str) -> bool) -> Result<Value, Error> {
    let (what,): (Value,) = from_args(args)?;
    look(&what)?;
    let is_met = |value: &Value| match value.as_str() {
        Some(text) => Ok(test(text)),
        None => Err(wrong(format!("{method} first arg must be str or a tuple of str, not {}", type_name(value)))),
    };
    match what.downcast_object_ref::<List>() {
        None => is_met(&what).map(Value::from),
        Some(list) => {
            for each in &list.items {
                if is_met(each)? {
                    return Ok(Value::from(true));
                }
            }
            Ok(Value::from(false))
        }
    }
}

pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().collect::<String>() + &chars.as_str().to_lowercase(),
        None => String::new(),
    }
}

pub fn join(between: &str, items: &[Value], convert: bool) -> Result<Value, Error> {
    let mut out = String::new();
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            spend(between.len())?;
            out.push_str(between);
        }
        match item.as_str() {
            Some(text) => {
                spend(text.len() + 1)?;
                out.push_str(text);
            }
            None if convert => out.push_str(&str_of(item)?),
            None => return Err(wrong(format!("sequence item {i}: expected str instance, {} found", type_name(item)))),
        }
    }
    Ok(Value::from(out))
}

/// The most digits of a width or a precision in a format: "{:>1000000000}" would be a gigabyte.
const MOST_FORMAT_DIGITS: usize = 4;

fn checked_format(format: &str) -> Result<(), Error> {
    let mut digits = 0;
    for c in format.chars() {
        digits = if c.is_ascii_digit() { digits + 1 } else { 0 };
        if digits > MOST_FORMAT_DIGITS {
            return Err(wrong("a number in a format has more than 4 digits"));
        }
        if c == '*' {
            return Err(wrong("'*' in a format is not supported"));
        }
    }
    // A width of 9999 for two characters.
    spend(format.len().saturating_mul(5000))
}

/// `format % args`.
pub fn percent_format(state: &State, format: &Value, args: &[Value]) -> Result<Value, Error> {
    checked_format(format.as_str().unwrap_or_default())?;
    args.iter().try_for_each(crate::budget::look_deep)?;
    values::ours(minijinja::filters::format(state, format, minijinja::value::Rest(args.to_vec()))?)
}

pub fn of_string(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return Err(unknown(type_name(value), method));
    };
    for arg in args {
        look(arg)?;
    }
    spend(text.len() + 16)?;
    let chars = || -> Result<Option<String>, Error> {
        let (chars,): (Option<String>,) = from_args(args)?;
        Ok(chars)
    };
    let none = || -> Result<(), Error> {
        let () = from_args(args)?;
        Ok(())
    };
    let all = |test: fn(char) -> bool| Ok(Value::from(!text.is_empty() && text.chars().all(test)));
    match method {
        "strip" => values::text(strip(text, chars()?.as_deref(), true, true).into()),
        "lstrip" => values::text(strip(text, chars()?.as_deref(), true, false).into()),
        "rstrip" => values::text(strip(text, chars()?.as_deref(), false, true).into()),
        "split" => split(text, args, false),
        "rsplit" => split(text, args, true),
        "splitlines" => {
            let (keep,): (Option<bool>,) = from_args(args)?;
            texts(lines_of(text, keep.unwrap_or(false)))
        }
        "startswith" => any_of(args, method, |part| text.starts_with(part)),
        "endswith" => any_of(args, method, |part| text.ends_with(part)),
        "replace" => {
            let (old, new, most): (String, String, Option<i64>) = from_args(args)?;
            replaced(text, &old, &new, most)
        }
        "find" | "rfind" | "index" | "rindex" => {
            let (part,): (String,) = from_args(args)?;
            let at = if method.starts_with('r') { text.rfind(&part) } else { text.find(&part) };
            match at {
                Some(at) => Ok(Value::from(text[..at].chars().count())),
                None if method.ends_with("find") => Ok(Value::from(-1)),
                None => Err(wrong("substring not found")),
            }
        }
        "count" => {
            let (part,): (String,) = from_args(args)?;
            Ok(Value::from(if part.is_empty() { text.chars().count() + 1 } else { text.matches(&part).count() }))
        }
        "join" => {
            let (items,): (Value,) = from_args(args)?;
            if let Some(list) = items.downcast_object_ref::<List>() {
                return join(text, &list.items, false);
            }
            let each: Result<Vec<Value>, Error> = items.try_iter().map(|all| all.collect());
            join(text, &each?, false)
        }
        "removeprefix" => {
            let (part,): (String,) = from_args(args)?;
            values::text(text.strip_prefix(part.as_str()).unwrap_or(text).into())
        }
        "removesuffix" => {
            let (part,): (String,) = from_args(args)?;
            values::text(text.strip_suffix(part.as_str()).unwrap_or(text).into())
        }
        "partition" | "rpartition" => {
            let (sep,): (String,) = from_args(args)?;
            if sep.is_empty() {
                return Err(wrong("empty separator"));
            }
            texts(match method {
                "partition" => text.split_once(&sep).map_or(vec![text, "", ""], |(a, b)| vec![a, &sep, b]),
                _ => text.rsplit_once(&sep).map_or(vec!["", "", text], |(a, b)| vec![a, &sep, b]),
            })
        }
        "zfill" | "ljust" | "rjust" | "center" => {
            let (width, fill): (i64, Option<char>) = from_args(args)?;
            let fill = fill.unwrap_or(if method == "zfill" { '0' } else { ' ' });
            let short = (width.max(0) as usize).saturating_sub(text.chars().count());
            spend(short.saturating_mul(4))?;
            let pad = |count: usize| fill.to_string().repeat(count);
            let signed = method == "zfill" && text.starts_with(['+', '-']);
            Ok(Value::from(match method {
                "ljust" => text.to_string() + &pad(short),
                "center" => {
                    // As CPython has it: the odd one on the left if the width is odd.
                    let left = short / 2 + (short & width as usize & 1);
                    pad(left) + text + &pad(short - left)
                }
                "zfill" if signed => text[..1].to_string() + &pad(short) + &text[1..],
                _ => pad(short) + text,
            }))
        }
        "upper" => none().and_then(|()| values::text(text.to_uppercase())),
        "casefold" if !text.is_ascii() => Err(wrong("str.casefold beyond ASCII is not supported")),
        "lower" | "casefold" => none().and_then(|()| values::text(text.to_lowercase())),
        "capitalize" => none().and_then(|()| values::text(capitalized(text))),
        "isspace" => all(is_space),
        "isdigit" | "isdecimal" | "isnumeric" => none().and_then(|()| are_digits(text, method)),
        "isupper" => none().map(|()| Value::from(is_in_case(text, true))),
        "islower" => none().map(|()| Value::from(is_in_case(text, false))),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "format" => {
            checked_format(text)?;
            args.iter().try_for_each(|arg| crate::budget::look_deep(arg))?;
            values::ours(minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)?)
        }
        "title" | "isascii" => {
            values::ours(minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)?)
        }
        _ => Err(unknown("str", method)),
    }
}
