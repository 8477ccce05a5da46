//! What one rendering may take: every value that an expression makes is paid for, so that no template, however it
//! repeats, joins or nests, takes unbounded memory or time.
use minijinja::{Error, ErrorKind, Value};
use std::cell::Cell;

use crate::values::{Dict, List};

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static ALL: Cell<u64> = const { Cell::new(0) };
}

pub fn begin(bytes: u64) {
    LEFT.with(|left| left.set(bytes));
    ALL.with(|all| all.set(bytes));
}

/// Pays for `bytes` of memory, or of work on memory, before they are taken.
pub fn spend(bytes: usize) -> Result<(), Error> {
    LEFT.with(|left| match left.get().checked_sub(bytes as u64) {
        Some(rest) => {
            left.set(rest);
            Ok(())
        }
        None => {
            left.set(0);
            Err(Error::new(
                ErrorKind::OutOfFuel,
                format!("the template works on more than {} bytes", ALL.with(|all| all.get())),
            ))
        }
    })
}

/// Pays for looking at a value once: a string's bytes, the items of a list, and strings among them.
pub fn look(value: &Value) -> Result<(), Error> {
    if let Some(text) = value.as_str() {
        return spend(text.len() / 2 + 1);
    }
    if let Some(list) = value.downcast_object_ref::<List>() {
        return spend(8 * list.items.len() + 1);
    }
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        return spend(16 * dict.items.len() + 1);
    }
    spend(1)
}

/// Pays for looking at all that a value holds.
pub fn look_deep(value: &Value) -> Result<(), Error> {
    look(value)?;
    if let Some(list) = value.downcast_object_ref::<List>() {
        for item in &list.items {
            look_deep(item)?;
        }
    } else if let Some(dict) = value.downcast_object_ref::<Dict>() {
        for (key, item) in &dict.items {
            look(key)?;
            look_deep(item)?;
        }
    }
    Ok(())
}
