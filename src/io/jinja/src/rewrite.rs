//! A template's syntax tree with its operators as calls of functions of ours, which pay for what they make (budget.rs).
//! Nothing is computed when a template is read: minijinja would fold `"a" * 100000000` then.
use minijinja::machinery::ast::{self, BinOpKind, CallArg, CompareOpKind, Expr, Spanned, Stmt, UnaryOpKind};
use minijinja::machinery::Span;
use minijinja::{Error, ErrorKind, Value};

type Made<T> = Result<T, Error>;

fn constant<'a>(value: impl Into<Value>, span: Span) -> Expr<'a> {
    Expr::Const(Spanned::new(ast::Const { value: value.into() }, span))
}

/// No template can call or shadow these functions: their names are no identifiers.
fn call<'a>(name: &'a str, args: Vec<Expr<'a>>, span: Span) -> Expr<'a> {
    let args = args.into_iter().map(CallArg::Pos).collect();
    let expr = Expr::Var(Spanned::new(ast::Var { id: name }, span));
    Expr::Call(Spanned::new(ast::Call { expr, args }, span))
}

fn comparison(op: CompareOpKind) -> &'static str {
    match op {
        CompareOpKind::Eq => "==",
        CompareOpKind::Ne => "!=",
        CompareOpKind::Lt => "<",
        CompareOpKind::Lte => "<=",
        CompareOpKind::Gt => ">",
        CompareOpKind::Gte => ">=",
        CompareOpKind::In => "in",
        CompareOpKind::NotIn => "not in",
    }
}

fn binary(op: BinOpKind) -> &'static str {
    match op {
        BinOpKind::Eq => "==",
        BinOpKind::Ne => "!=",
        BinOpKind::Lt => "<",
        BinOpKind::Lte => "<=",
        BinOpKind::Gt => ">",
        BinOpKind::Gte => ">=",
        BinOpKind::ScAnd | BinOpKind::ScOr => "",
        BinOpKind::Add => "+",
        BinOpKind::Sub => "-",
        BinOpKind::Mul => "*",
        BinOpKind::Div => "/",
        BinOpKind::FloorDiv => "//",
        BinOpKind::Rem => "%",
        BinOpKind::Pow => "**",
        BinOpKind::Concat => "~",
        BinOpKind::In => "in",
    }
}

fn expr_args<'a>(args: &[CallArg<'a>]) -> Made<Vec<CallArg<'a>>> {
    args.iter()
        .map(|arg| {
            Ok(match arg {
                CallArg::Pos(e) => CallArg::Pos(expr(e)?),
                CallArg::Kwarg(name, e) => CallArg::Kwarg(name, expr(e)?),
                CallArg::PosSplat(e) => CallArg::PosSplat(expr(e)?),
                CallArg::KwargSplat(e) => CallArg::KwargSplat(expr(e)?),
            })
        })
        .collect()
}

fn exprs<'a>(all: &[Expr<'a>]) -> Made<Vec<Expr<'a>>> {
    all.iter().map(expr).collect()
}

fn call_of<'a>(c: &Spanned<ast::Call<'a>>) -> Made<Spanned<ast::Call<'a>>> {
    Ok(Spanned::new(ast::Call { expr: expr(&c.expr)?, args: expr_args(&c.args)? }, c.span()))
}

fn expr<'a>(e: &Expr<'a>) -> Made<Expr<'a>> {
    let span = e.span();
    Ok(match e {
        Expr::Var(v) => Expr::Var(Spanned::new(ast::Var { id: v.id }, span)),
        Expr::Const(c) => match c.value.as_object() {
            None => constant(c.value.clone(), span),
            Some(_) => return Err(Error::new(ErrorKind::SyntaxError, "a constant list or dict")),
        },
        Expr::Slice(s) => {
            let bound = |b: &Option<Expr<'a>>| b.as_ref().map_or_else(|| Ok(constant((), span)), expr);
            call("[:]", vec![expr(&s.expr)?, bound(&s.start)?, bound(&s.stop)?, bound(&s.step)?], span)
        }
        Expr::UnaryOp(u) => match u.op {
            UnaryOpKind::Not => {
                Expr::UnaryOp(Spanned::new(ast::UnaryOp { op: UnaryOpKind::Not, expr: expr(&u.expr)? }, span))
            }
            UnaryOpKind::Neg => call("-x", vec![expr(&u.expr)?], span),
        },
        Expr::BinOp(b) => match b.op {
            BinOpKind::ScAnd | BinOpKind::ScOr => {
                let (left, right) = (expr(&b.left)?, expr(&b.right)?);
                Expr::BinOp(Spanned::new(ast::BinOp { op: b.op, left, right }, span))
            }
            op => call(binary(op), vec![expr(&b.left)?, expr(&b.right)?], span),
        },
        Expr::Compare(c) if c.ops.len() == 1 => {
            call(comparison(c.ops[0].op), vec![expr(&c.expr)?, expr(&c.ops[0].expr)?], span)
        }
        Expr::Compare(c) => {
            let mut args = vec![expr(&c.expr)?];
            for op in &c.ops {
                args.push(constant(comparison(op.op), span));
                args.push(expr(&op.expr)?);
            }
            call("a<b<c", args, span)
        }
        Expr::IfExpr(i) => Expr::IfExpr(Spanned::new(
            ast::IfExpr {
                test_expr: expr(&i.test_expr)?,
                true_expr: expr(&i.true_expr)?,
                false_expr: i.false_expr.as_ref().map(expr).transpose()?,
            },
            span,
        )),
        Expr::Filter(f) => {
            // A filter of a block has no operand here: what it works on is text, which is paid for.
            let operand = match &f.expr {
                Some(e) => Some(call("look", vec![expr(e)?], span)),
                None => None,
            };
            Expr::Filter(Spanned::new(ast::Filter { name: f.name, expr: operand, args: expr_args(&f.args)? }, span))
        }
        Expr::Test(t) => Expr::Test(Spanned::new(
            ast::Test { name: t.name, expr: call("look", vec![expr(&t.expr)?], span), args: expr_args(&t.args)? },
            span,
        )),
        Expr::GetAttr(g) => Expr::GetAttr(Spanned::new(ast::GetAttr { expr: expr(&g.expr)?, name: g.name }, span)),
        Expr::GetItem(g) => call("x[i]", vec![expr(&g.expr)?, expr(&g.subscript_expr)?], span),
        Expr::Call(c) => Expr::Call(call_of(c)?),
        Expr::List(l) => call("[]", exprs(&l.items)?, span),
        Expr::Map(m) => {
            let mut args = Vec::new();
            for (key, value) in m.keys.iter().zip(&m.values) {
                args.push(expr(key)?);
                args.push(expr(value)?);
            }
            call("{}", args, span)
        }
    })
}

/// What is assigned to: names, attributes and lists of them, as they are.
fn target<'a>(e: &Expr<'a>) -> Made<Expr<'a>> {
    Ok(match e {
        Expr::List(l) => {
            let items = l.items.iter().map(target).collect::<Made<_>>()?;
            Expr::List(Spanned::new(ast::List { items }, e.span()))
        }
        _ => expr(e)?,
    })
}

/// A value for an attribute of a namespace, which may not hold a namespace: such a circle would never be freed.
fn assigned<'a>(to: &Expr<'a>, e: &Expr<'a>) -> Made<Expr<'a>> {
    let value = expr(e)?;
    Ok(match to {
        Expr::Var(_) => value,
        _ => call("plain", vec![value], e.span()),
    })
}

fn macro_of<'a>(m: &Spanned<ast::Macro<'a>>) -> Made<Spanned<ast::Macro<'a>>> {
    let args = m.args.iter().map(target).collect::<Made<_>>()?;
    let made = ast::Macro { name: m.name, args, defaults: exprs(&m.defaults)?, body: stmts(&m.body)? };
    Ok(Spanned::new(made, m.span()))
}

fn stmts<'a>(all: &[Stmt<'a>]) -> Made<Vec<Stmt<'a>>> {
    all.iter().map(stmt).collect()
}

fn foreign(tag: &str, span: Span) -> Error {
    Error::new(ErrorKind::SyntaxError, format!("'{tag}' is not for chat templates, in line {}", span.start_line))
}

pub fn stmt<'a>(s: &Stmt<'a>) -> Made<Stmt<'a>> {
    Ok(match s {
        Stmt::Template(t) => Stmt::Template(Spanned::new(ast::Template { children: stmts(&t.children)? }, t.span())),
        Stmt::EmitExpr(e) => Stmt::EmitExpr(Spanned::new(ast::EmitExpr { expr: expr(&e.expr)? }, e.span())),
        // As an expression, so that it is paid for as often as it is written.
        Stmt::EmitRaw(r) => {
            Stmt::EmitExpr(Spanned::new(ast::EmitExpr { expr: constant(r.raw, r.span()) }, r.span()))
        }
        Stmt::ForLoop(f) => Stmt::ForLoop(Spanned::new(
            ast::ForLoop {
                target: target(&f.target)?,
                iter: call("each", vec![expr(&f.iter)?], f.span()),
                filter_expr: f.filter_expr.as_ref().map(expr).transpose()?,
                recursive: f.recursive,
                body: stmts(&f.body)?,
                else_body: stmts(&f.else_body)?,
            },
            f.span(),
        )),
        Stmt::IfCond(i) => Stmt::IfCond(Spanned::new(
            ast::IfCond {
                expr: expr(&i.expr)?,
                true_body: stmts(&i.true_body)?,
                false_body: stmts(&i.false_body)?,
            },
            i.span(),
        )),
        Stmt::WithBlock(w) => {
            let assignments = w.assignments.iter().map(|(to, e)| Ok((target(to)?, expr(e)?))).collect::<Made<_>>()?;
            Stmt::WithBlock(Spanned::new(ast::WithBlock { assignments, body: stmts(&w.body)? }, w.span()))
        }
        Stmt::Set(x) => Stmt::Set(Spanned::new(
            ast::Set { target: target(&x.target)?, expr: assigned(&x.target, &x.expr)? },
            x.span(),
        )),
        Stmt::SetBlock(x) => Stmt::SetBlock(Spanned::new(
            ast::SetBlock {
                target: target(&x.target)?,
                filter: x.filter.as_ref().map(expr).transpose()?,
                body: stmts(&x.body)?,
            },
            x.span(),
        )),
        Stmt::FilterBlock(f) => Stmt::FilterBlock(Spanned::new(
            ast::FilterBlock { filter: expr(&f.filter)?, body: stmts(&f.body)? },
            f.span(),
        )),
        Stmt::Macro(m) => Stmt::Macro(macro_of(m)?),
        Stmt::CallBlock(c) => Stmt::CallBlock(Spanned::new(
            ast::CallBlock { call: call_of(&c.call)?, macro_decl: macro_of(&c.macro_decl)? },
            c.span(),
        )),
        Stmt::Continue(c) => Stmt::Continue(Spanned::new(ast::Continue, c.span())),
        Stmt::Break(b) => Stmt::Break(Spanned::new(ast::Break, b.span())),
        Stmt::Do(d) => Stmt::Do(Spanned::new(ast::Do { call: call_of(&d.call)? }, d.span())),
        Stmt::AutoEscape(a) => return Err(foreign("autoescape", a.span())),
        Stmt::Block(b) => return Err(foreign("block", b.span())),
        Stmt::Import(i) => return Err(foreign("import", i.span())),
        Stmt::FromImport(i) => return Err(foreign("from", i.span())),
        Stmt::Extends(e) => return Err(foreign("extends", e.span())),
        Stmt::Include(i) => return Err(foreign("include", i.span())),
    })
}
