//! Jinja templates of chats for C++, by minijinja: two functions of C. See chat_template.cpp, which calls them.
mod budget;
mod clock;
mod filters;
mod json;
mod methods;
mod ops;
mod render;
mod rewrite;
mod values;

use std::panic::{catch_unwind, AssertUnwindSafe};

/// What a rendering is given, and held to. `variables` is a JSON object.
#[repr(C)]
pub struct RlxJinjaInput {
    template: *const u8,
    template_size: usize,
    variables: *const u8,
    variables_size: usize,
    /// Seconds since 1970-01-01 00:00 by the clock of the place, for strftime_now.
    now: i64,
    most_steps: u64,
    most_bytes: u64,
}

/// Text of Rust's, to be given back by `rlx_jinja_free`.
#[repr(C)]
pub struct RlxJinjaText {
    bytes: *mut u8,
    size: usize,
}

const RENDERED: i32 = 0;
const SYNTAX: i32 = 1;
const RAISED: i32 = 2;
const FAILED: i32 = 3;
const LIMIT: i32 = 4;
const INTERNAL: i32 = 5;

/// Deep expressions recurse; a thread of ours has room for them whatever the caller's has. Untouched pages cost nothing.
const STACK_BYTES: usize = 256 << 20;

unsafe fn bytes_at<'a>(at: *const u8, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: as the caller of rlx_jinja_render promises.
    unsafe { std::slice::from_raw_parts(at, size) }
}

/// Renders the template, or only reads it where `variables` is null. Stores the result or the message.
///
/// # Safety
/// The pointers hold as many bytes as said, and `text` can be written to.
#[no_mangle]
pub unsafe extern "C" fn rlx_jinja_render(input: *const RlxJinjaInput, text: *mut RlxJinjaText) -> i32 {
    // What went wrong is told by the status, so a panic prints nothing. This hook is of our copy of Rust's library alone.
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let result = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: as promised.
        let (input, template, variables) = unsafe {
            let input = &*input;
            let template = bytes_at(input.template, input.template_size);
            let variables = (!input.variables.is_null()).then(|| bytes_at(input.variables, input.variables_size));
            (input, template, variables)
        };
        let job = render::Job {
            now: input.now,
            most_steps: input.most_steps,
            most_bytes: input.most_bytes,
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("rlx_jinja".into())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || catch_unwind(AssertUnwindSafe(|| render::run(&job, template, variables))));
            match thread.map(|t| t.join()) {
                Ok(Ok(Ok(result))) => result,
                Ok(_) => Err((INTERNAL, "the template engine panicked".into())),
                Err(error) => Err((INTERNAL, format!("no thread for the template engine: {error}"))),
            }
        })
    }))
    .unwrap_or_else(|_| Err((INTERNAL, "the template engine panicked".into())));
    let (status, made) = match result {
        Ok(made) => (RENDERED, made),
        Err((status, message)) => (status, message),
    };
    let mut made = made.into_bytes().into_boxed_slice();
    // SAFETY: as promised.
    unsafe {
        *text = RlxJinjaText { bytes: made.as_mut_ptr(), size: made.len() };
    }
    std::mem::forget(made);
    status
}

/// # Safety
/// `text` is as rlx_jinja_render made it, and is given back once.
#[no_mangle]
pub unsafe extern "C" fn rlx_jinja_free(text: RlxJinjaText) {
    // SAFETY: the same pointer and size that into_boxed_slice gave.
    unsafe {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(text.bytes, text.size)));
    }
}
