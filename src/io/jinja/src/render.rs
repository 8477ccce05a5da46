//! A template read, rewritten and run.
use indexmap::IndexMap;
use minijinja::machinery::{self, CodeGenerator, Token, Vm, WhitespaceConfig};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};
use std::borrow::Cow;

use crate::budget::{self, look, spend};
use crate::values::{self, str_of, wrong, Dict, List};
use crate::{clock, filters, json, methods, ops, rewrite};

pub struct Job {
    pub now: i64,
    pub most_steps: u64,
    pub most_bytes: u64,
}

type Outcome = Result<String, (i32, String)>;

/// The most tokens of one `{% ... %}` or `{{ ... }}`: long chains of operators are as deep as they are long.
const MOST_TOKENS: usize = 10_000;

fn whitespace() -> WhitespaceConfig {
    WhitespaceConfig { keep_trailing_newline: false, lstrip_blocks: true, trim_blocks: true }
}

/// `{% generation %}` and `{% endgeneration %}`, by which transformers finds what the assistant said, become blocks
/// that only have a scope of their own: `{% with %}`.
fn without_generation(template: &str) -> Cow<'_, str> {
    if !template.contains("generation") {
        return Cow::Borrowed(template);
    }
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        rest = tag;
        let body = tag.strip_prefix(['-', '+']).unwrap_or(tag);
        let word = body.trim_start();
        for (name, new) in [("generation", "with"), ("endgeneration", "endwith")] {
            let Some(behind) = word.strip_prefix(name) else { continue };
            let end = behind.trim_start();
            if end.strip_prefix(['-', '+']).unwrap_or(end).starts_with("%}") {
                out.push_str(&tag[..tag.len() - word.len()]);
                out.push_str(new);
                rest = behind;
                break;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn check_tokens(template: &str) -> Result<(), Error> {
    let mut count = 0;
    for token in machinery::tokenize(template, false, SyntaxConfig::default(), whitespace()) {
        let (token, span) = token?;
        count += 1;
        match token {
            Token::VariableStart | Token::BlockStart | Token::TemplateData(_) => count = 0,
            _ if count > MOST_TOKENS => {
                let message = format!("an expression has more than {MOST_TOKENS} tokens, in line {}", span.start_line);
                return Err(Error::new(ErrorKind::SyntaxError, message));
            }
            _ => {}
        }
    }
    Ok(())
}

fn add_operators(env: &mut Environment) {
    for op in ["+", "-", "*", "/", "//", "**"] {
        env.add_function(op, move |a: Value, b: Value| ops::arithmetic(op, &a, &b));
    }
    env.add_function("%", |state: &State, a: Value, b: Value| match a.as_str() {
        Some(_) => {
            let args = b.downcast_object_ref::<List>().map_or_else(|| vec![b.clone()], |list| list.items.clone());
            methods::percent_format(state, &a, &args)
        }
        None => ops::arithmetic("%", &a, &b),
    });
    for op in ["==", "!=", "<", "<=", ">", ">=", "in", "not in"] {
        env.add_function(op, move |a: Value, b: Value| ops::compare(op, &a, &b));
    }
    env.add_function("a<b<c", |args: Rest<Value>| {
        for i in (0..args.0.len().saturating_sub(2)).step_by(2) {
            if !ops::compare(args.0[i + 1].as_str().unwrap_or_default(), &args.0[i], &args.0[i + 2])? {
                return Ok(false);
            }
        }
        Ok::<_, Error>(true)
    });
    env.add_function("~", |a: Value, b: Value| ops::concat(&a, &b));
    env.add_function("-x", |a: Value| ops::negative(&a));
    env.add_function("x[i]", |a: Value, key: Value| values::item_of(&a, &key));
    env.add_function("[:]", |a: Value, start: Value, stop: Value, step: Value| ops::slice(&a, &start, &stop, &step));
    env.add_function("[]", |items: Rest<Value>| values::list(items.0));
    env.add_function("{}", |items: Rest<Value>| {
        items.0.iter().step_by(2).try_for_each(look)?;
        let pairs = items.0.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        if let Some((key, _)) = pairs.clone().find(|(key, _)| key.as_object().is_some()) {
            return Err(wrong(format!("unhashable type: '{}' as key of a dict", values::type_name(&key))));
        }
        values::dict(pairs.collect::<IndexMap<_, _>>())
    });
    env.add_function("look", |a: Value| look(&a).map(|()| a));
    // What a loop runs over, where it is none of ours: a loop's copies are paid for.
    env.add_function("each", |a: Value| {
        let size = a.as_str().map_or(0, |text| 8 * text.len());
        spend(size + 1)?;
        let iterable = a.as_str().is_some()
            || a.is_undefined()
            || a.downcast_object_ref::<List>().is_some()
            || a.downcast_object_ref::<Dict>().is_some();
        match iterable {
            true => Ok(a),
            false => Err(wrong(format!("'{}' object is not iterable", values::type_name(&a)))),
        }
    });
    env.add_function("plain", |a: Value| {
        let is_ours = a.downcast_object_ref::<List>().is_some() || a.downcast_object_ref::<Dict>().is_some();
        match a.as_object().is_none() || is_ours {
            true => Ok(a),
            false => Err(wrong(format!("an attribute cannot hold a {}", values::type_name(&a)))),
        }
    });
}

/// The most numbers of a range, as Jinja2's sandbox has it.
const MOST_RANGE: i64 = 100_000;

fn range(first: i64, stop: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let (start, stop) = stop.map_or((0, first), |stop| (first, stop));
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(wrong("range() arg 3 must not be zero"));
    }
    let span = if step > 0 { stop as i128 - start as i128 } else { start as i128 - stop as i128 };
    let size = step.unsigned_abs() as i128;
    let count = if span <= 0 { 0 } else { (span + size - 1) / size };
    if count > MOST_RANGE as i128 {
        return Err(wrong(format!("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({MOST_RANGE}).")));
    }
    values::list((0..count).map(|i| Value::from((start as i128 + i * step as i128) as i64)).collect())
}

fn new_dict(from: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let mut items: IndexMap<Value, Value> = IndexMap::new();
    if let Some(from) = from {
        look(&from)?;
        match from.downcast_object_ref::<Dict>() {
            Some(dict) => items = dict.items.clone(),
            None => {
                for pair in from.try_iter()? {
                    let key = values::item_of(&pair, &Value::from(0))?;
                    if key.as_object().is_some() {
                        return Err(wrong("unhashable key of a dict"));
                    }
                    items.insert(key, values::item_of(&pair, &Value::from(1))?);
                }
            }
        }
    }
    for name in kwargs.args() {
        items.insert(Value::from(name), kwargs.get::<Value>(name)?);
    }
    kwargs.assert_all_used()?;
    values::dict(items)
}

fn environment<'a>(now: i64) -> Environment<'a> {
    let mut env = Environment::empty();
    filters::add_to(&mut env);
    add_operators(&mut env);
    env.add_function("range", range);
    env.add_function("dict", new_dict);
    env.add_function("namespace", |from: Option<Value>, kwargs: Kwargs| {
        spend(256)?;
        if let Some(bad) = kwargs.args().find(|name| name.starts_with('_')) {
            return Err(wrong(format!("a namespace takes no attribute that begins with '_', such as '{bad}'")));
        }
        let made = match from {
            Some(from) => new_dict(Some(from), kwargs)?,
            None => Value::from(kwargs),
        };
        minijinja::functions::namespace(Some(made))
    });
    env.add_function("raise_exception", |message: Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, RAISED_MARK.to_string() + &str_of(&message)?))
    });
    env.add_function("strftime_now", move |format: String| clock::strftime(now, &format));
    env.set_unknown_method_callback(methods::of_string);
    env.set_formatter(|out, _, value| {
        if let Some(text) = value.as_str() {
            spend(text.len())?;
            return out.write_str(text).map_err(Error::from);
        }
        let text = match value.kind() {
            ValueKind::Undefined => return Ok(()),
            _ => str_of(value)?,
        };
        spend(text.len())?;
        out.write_str(&text).map_err(Error::from)
    });
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env
}

const RAISED_MARK: &str = "\u{1}raised\u{1}";

fn failure(error: Error, otherwise: i32) -> (i32, String) {
    let mut deepest: &Error = &error;
    let mut lines = Vec::new();
    loop {
        if let Some(line) = deepest.line() {
            lines.push(line);
        }
        match std::error::Error::source(deepest).and_then(|source| source.downcast_ref::<Error>()) {
            Some(source) => deepest = source,
            None => break,
        }
    }
    let detail = deepest.detail().unwrap_or_default();
    if let Some(message) = detail.strip_prefix(RAISED_MARK) {
        return (crate::RAISED, message.to_string());
    }
    let status = match deepest.kind() {
        ErrorKind::OutOfFuel => crate::LIMIT,
        ErrorKind::SyntaxError => crate::SYNTAX,
        _ => otherwise,
    };
    let what = match (deepest.kind(), detail) {
        (ErrorKind::OutOfFuel, "") => "the template takes more steps than its limit".to_string(),
        (kind, "") => kind.to_string(),
        (ErrorKind::SyntaxError | ErrorKind::InvalidOperation | ErrorKind::OutOfFuel, detail) => detail.to_string(),
        (kind, detail) => format!("{kind}: {detail}"),
    };
    // The outermost place comes first: a macro's caller, then the macro.
    let place = lines.iter().map(|line| format!("line {line}")).collect::<Vec<_>>().join(", ");
    (status, if place.is_empty() { what } else { format!("{place}: {what}") })
}

fn utf8<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, (i32, String)> {
    std::str::from_utf8(bytes).map_err(|e| (crate::SYNTAX, format!("{what} is not UTF-8 at byte {}", e.valid_up_to())))
}

/// What transformers does to messages before a template sees them: no keys with null, and what the assistant thought
/// under its names of today and of earlier.
fn tidy(messages: &mut serde_json::Value) {
    const NAMES: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];
    for message in messages.as_array_mut().into_iter().flatten() {
        let Some(members) = message.as_object_mut() else { continue };
        members.retain(|_, value| !value.is_null());
        if let Some(reasoning) = NAMES.iter().find_map(|name| members.get(*name)).cloned() {
            let mut made = serde_json::Map::new();
            made.insert("thinking".into(), reasoning.clone());
            made.append(members);
            made.insert("reasoning_content".into(), reasoning);
            *members = made;
        }
    }
}

pub fn run(job: &Job, template: &[u8], variables: Option<&[u8]>) -> Outcome {
    let template = without_generation(utf8(template, "the template")?);
    budget::begin(job.most_bytes);
    let (instructions, blocks) = {
        check_tokens(&template).map_err(|e| failure(e, crate::SYNTAX))?;
        let tree = machinery::parse(&template, "template", SyntaxConfig::default(), whitespace())
            .and_then(|tree| rewrite::stmt(&tree))
            .map_err(|e| failure(e, crate::SYNTAX))?;
        let mut generator = CodeGenerator::new("template", &template);
        generator.compile_stmt(&tree);
        generator.finish()
    };
    let Some(variables) = variables else {
        return Ok(String::new());
    };
    let json: serde_json::Value = serde_json::from_slice(variables)
        .map_err(|e| (crate::FAILED, format!("the variables are no JSON: {e}")))?;
    let serde_json::Value::Object(json) = json else {
        return Err((crate::FAILED, "the variables are no JSON object".into()));
    };
    let mut root = IndexMap::new();
    for (name, mut value) in json {
        if name == "messages" {
            tidy(&mut value);
        }
        root.insert(Value::from(name), json::value_from(value).map_err(|e| failure(e, crate::FAILED))?);
    }
    let root = values::dict(root).map_err(|e| failure(e, crate::FAILED))?;
    let mut env = environment(job.now);
    env.set_fuel(Some(job.most_steps));
    let mut rendered = String::new();
    let mut out = machinery::make_string_output(&mut rendered);
    let done = Vm::new(&env).eval(&instructions, root, &blocks, &mut out, AutoEscape::None).map(|_| ());
    done.map_err(|e| failure(e, crate::FAILED))?;
    Ok(rendered)
}

