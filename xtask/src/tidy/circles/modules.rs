//! The modules of one crate as its sources write them: items, imports and the paths in the code.
//!
//! Begins at a crate's root and follows `mod` declarations. An item that is compiled for tests alone
//! (`#[cfg(test)]`) is left out with all its content.

use std::collections::{HashMap, HashSet};

use super::tokens::{Token, split};
use crate::tree::Tree;

/// Keywords after which the next word is the name of an item.
const NAMING: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

/// Words that may begin an item, besides [`NAMING`].
const BEGINNING: [&str; 9] =
    ["pub", "unsafe", "async", "extern", "impl", "mod", "use", "macro_rules", "default"];

/// One module: a file, or an inline module within a file.
#[derive(Default)]
pub struct Module<'a> {
    /// Path of its file.
    pub file: &'a str,
    /// The module above it; `None` for a root.
    pub parent: Option<usize>,
    /// Modules that it declares, by name.
    pub children: HashMap<&'a str, usize>,
    /// Names of the items that it defines.
    pub items: HashSet<&'a str>,
    /// Its `use` declarations, one for each name, those in function bodies too.
    pub imports: Vec<Import<'a>>,
    /// Paths of two and more names that stand in its code.
    pub paths: Vec<Path<'a>>,
    /// Words of its code outside `use` declarations, those after a dot left aside, with the line
    /// on which each is first.
    pub words: HashMap<&'a str, usize>,
}

/// One name that a `use` declaration brings.
#[derive(Debug)]
pub struct Import<'a> {
    /// The name in the module; `*` when it brings all.
    pub name: &'a str,
    /// The path that it imports, to the name or the `*`.
    pub path: Path<'a>,
    /// Whether it is `pub` in any form: a re-export.
    pub is_public: bool,
}

/// A path and its line.
#[derive(Debug)]
pub struct Path<'a> {
    /// Names from left to right; `crate`, `self` and `super` as they stand.
    pub names: Vec<&'a str>,
    /// Line from 1 on.
    pub line: usize,
}

/// The modules that are reached from the roots of one crate.
#[derive(Default)]
pub struct Modules<'a> {
    /// A parent precedes its children.
    pub all: Vec<Module<'a>>,
}

impl<'a> Modules<'a> {
    /// Reads the crate root at `path` and all that it declares; returns the root's index.
    pub fn read(&mut self, tree: &'a Tree, path: &str) -> Option<usize> {
        let file = tree.file(path)?;
        let root = self.add(&file.path, None);
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Reader { tree, modules: self }.file(root, folder, &split(&file.text));
        Some(root)
    }

    fn add(&mut self, file: &'a str, parent: Option<usize>) -> usize {
        self.all.push(Module { file, parent, ..Module::default() });
        self.all.len() - 1
    }
}

struct Reader<'a, 'm> {
    tree: &'a Tree,
    modules: &'m mut Modules<'a>,
}

impl<'a> Reader<'a, '_> {
    /// Reads the tokens of a module; files of its children are below `folder`.
    fn file(&mut self, module: usize, folder: &str, tokens: &[Token<'a>]) {
        let mut depth = 0;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at = match token.text {
                "#" => match skip_test_item(tokens, at) {
                    Some(after) => after,
                    None => at + 1,
                },
                "mod" if depth == 0 => self.declaration(module, folder, tokens, at),
                "use" => self.imports(module, tokens, at),
                "{" | "(" | "[" => {
                    depth += 1;
                    at + 1
                }
                "}" | ")" | "]" => {
                    depth -= 1;
                    at + 1
                }
                _ if token.is_word() || token.text == "::" => {
                    if depth == 0 {
                        self.define(module, tokens, at);
                    }
                    self.path(module, tokens, at)
                }
                _ => at + 1,
            };
        }
    }

    /// `mod name;` or `mod name { … }`; returns the index behind it.
    fn declaration(
        &mut self,
        module: usize,
        folder: &str,
        tokens: &[Token<'a>],
        at: usize,
    ) -> usize {
        let Some(name) = tokens.get(at + 1).map(|token| token.text) else { return at + 1 };
        let below = format!("{folder}/{name}");
        if text(tokens, at + 2) == "{" {
            let end = group_end(tokens, at + 2);
            let child = self.modules.add(self.modules.all[module].file, Some(module));
            self.modules.all[module].children.insert(name, child);
            self.file(child, &below, &tokens[at + 3..end.max(at + 4) - 1]);
            return end;
        }
        let named = attribute_path(tokens, at);
        let candidates = match named {
            Some(path) => vec![format!("{folder}/{path}")],
            None => vec![format!("{below}.rs"), format!("{below}/mod.rs")],
        };
        if let Some(file) = candidates.iter().find_map(|path| self.tree.file(path)) {
            let child = self.modules.add(&file.path, Some(module));
            self.modules.all[module].children.insert(name, child);
            self.file(child, &below, &split(&file.text));
        }
        at + 2
    }

    /// All names of the `use` declaration at `at`; returns the index behind its semicolon.
    fn imports(&mut self, module: usize, tokens: &[Token<'a>], at: usize) -> usize {
        // `impl Trait + use<'a>` is no declaration.
        if text(tokens, at + 1) == "<" {
            return at + 1;
        }
        let end = (at..tokens.len()).find(|at| tokens[*at].text == ";").unwrap_or(tokens.len());
        let is_public = is_public(tokens, at);
        let mut found = Vec::new();
        use_tree(&tokens[at + 1..end], &mut Vec::new(), &mut found);
        let imports = found.into_iter().map(|(name, names, line)| {
            let path = Path { names, line };
            Import { name, path, is_public }
        });
        self.modules.all[module].imports.extend(imports);
        end + 1
    }

    /// Takes in the name of the item that `at` begins, if it does.
    fn define(&mut self, module: usize, tokens: &[Token<'a>], at: usize) {
        let is_macro = text(tokens, at) == "macro_rules" && text(tokens, at + 1) == "!";
        let name = if is_macro {
            tokens.get(at + 2)
        } else if NAMING.contains(&text(tokens, at)) {
            let mut after = at + 1;
            while matches!(text(tokens, after), "mut" | "unsafe" | "extern") {
                after += 1;
            }
            tokens.get(after).filter(|name| !NAMING.contains(&name.text))
        } else {
            None
        };
        if let Some(name) = name.filter(|name| name.is_word()) {
            self.modules.all[module].items.insert(name.text);
        }
    }

    /// Takes in the word or path at `at`; returns the index behind it.
    fn path(&mut self, module: usize, tokens: &[Token<'a>], at: usize) -> usize {
        let first = &tokens[at];
        let mut names = Vec::new();
        let mut end = at;
        // A path from `::` on begins with the name of another crate.
        if first.text == "::" {
            names.push("::");
            end += 1;
        }
        while tokens.get(end).is_some_and(Token::is_word) {
            names.push(tokens[end].text);
            end += 1;
            let goes_on = text(tokens, end) == "::";
            if !goes_on || !tokens.get(end + 1).is_some_and(Token::is_word) {
                break;
            }
            end += 1;
        }
        let before = at.checked_sub(1).map_or("", |before| tokens[before].text);
        let is_visibility =
            before == "in" && at >= 3 && tokens[at - 2].text == "(" && tokens[at - 3].text == "pub";
        let module = &mut self.modules.all[module];
        if before != "." {
            for name in &names {
                module.words.entry(name).or_insert(first.line);
            }
        }
        if names.len() > 1 && before != "." && !is_visibility {
            module.paths.push(Path { names, line: first.line });
        }
        end.max(at + 1)
    }
}

fn text<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

/// The index behind the group that opens at `at`.
fn group_end(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0;
    for (token, index) in tokens[at..].iter().zip(at..) {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

/// The index behind the item that `#[cfg(test)]` at `at` applies to.
fn skip_test_item(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let expected = ["#", "[", "cfg", "(", "test", ")", "]"];
    let found = (0..expected.len()).all(|offset| text(tokens, at + offset) == expected[offset]);
    if !found {
        return None;
    }
    let mut at = at + expected.len();
    while text(tokens, at) == "#" {
        at = group_end(tokens, at + 1);
    }
    let words = tokens[at..].iter().map(|token| token.text);
    let words: Vec<&str> = words.take_while(|text| !matches!(*text, "{" | ";" | "=")).collect();
    let is_item = words.first().is_some_and(|first| {
        NAMING.contains(first) || BEGINNING.contains(first) || *first == "let"
    });
    let has_value = ["use", "let", "static", "type"].iter().any(|word| words.contains(word))
        || (words.contains(&"const") && !words.contains(&"fn"));
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" => return Some(at + 1),
            "," if !is_item => return Some(at + 1),
            "}" | ")" | "]" => return Some(at),
            "{" if !has_value => return Some(group_end(tokens, at)),
            "{" | "(" | "[" => at = group_end(tokens, at),
            _ => at += 1,
        }
    }
    Some(at)
}

/// The file that `#[path = "…"]` before the `mod` at `at` names.
fn attribute_path<'a>(tokens: &[Token<'a>], at: usize) -> Option<&'a str> {
    let start = tokens[..at].iter().rposition(|token| matches!(token.text, ";" | "}" | "{"));
    let before = &tokens[start.map_or(0, |start| start + 1)..at];
    let path = before
        .windows(4)
        .find(|four| four[0].text == "[" && four[1].text == "path" && four[2].text == "=")?;
    Some(path[3].text.trim_matches('"'))
}

/// Whether `pub` or `pub(…)` precedes the `use` at `at`.
fn is_public(tokens: &[Token<'_>], at: usize) -> bool {
    match at.checked_sub(1).map(|before| tokens[before].text) {
        Some("pub") => true,
        Some(")") => {
            let open = tokens[..at].iter().rposition(|token| token.text == "(");
            open.and_then(|open| open.checked_sub(1)).is_some_and(|at| tokens[at].text == "pub")
        }
        _ => false,
    }
}

/// Name, path and line of each leaf of a `use` tree; returns the tokens behind it.
fn use_tree<'a, 't>(
    mut tokens: &'t [Token<'a>],
    prefix: &mut Vec<&'a str>,
    found: &mut Vec<(&'a str, Vec<&'a str>, usize)>,
) -> &'t [Token<'a>] {
    let depth = prefix.len();
    while let Some((token, rest)) = tokens.split_first() {
        match token.text {
            "{" => {
                tokens = rest;
                while !tokens.is_empty() && tokens[0].text != "}" {
                    tokens = use_tree(tokens, prefix, found);
                    if text(tokens, 0) == "," {
                        tokens = &tokens[1..];
                    }
                }
                tokens = tokens.get(1..).unwrap_or_default();
                break;
            }
            "::" if prefix.is_empty() => prefix.push("::"),
            "::" => {}
            "*" => {
                prefix.push("*");
                found.push(("*", prefix.clone(), token.line));
                tokens = rest;
                break;
            }
            "self" if !prefix.is_empty() => {}
            name => prefix.push(name),
        }
        tokens = rest;
        if text(tokens, 0) != "::" && token.text != "::" {
            let mut name = prefix.last().copied().unwrap_or_default();
            if text(tokens, 0) == "as" {
                name = text(tokens, 1);
                tokens = tokens.get(2..).unwrap_or_default();
            }
            found.push((name, prefix.clone(), token.line));
            break;
        }
    }
    prefix.truncate(depth);
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root<'a>(modules: &'a mut Modules<'a>, tree: &'a Tree) -> &'a Module<'a> {
        modules.read(tree, "src/lib.rs");
        &modules.all[0]
    }

    fn imports(source: &str) -> Vec<String> {
        let tree = Tree::of(&[("src/lib.rs", source)]);
        let mut modules = Modules::default();
        modules.read(&tree, "src/lib.rs");
        let imports = modules.all[0].imports.iter();
        imports
            .map(|import| {
                let mark = if import.is_public { "pub " } else { "" };
                format!("{mark}{} = {}", import.name, import.path.names.join(" "))
            })
            .collect()
    }

    #[test]
    fn a_use_brings_each_of_its_names() {
        assert_eq!(imports("use crate::a::B;"), ["B = crate a B"]);
        assert_eq!(
            imports("pub(crate) use a::{self, b::{C, D as E}, f::*};\nuse ::g::H;"),
            ["pub a = a", "pub C = a b C", "pub E = a b D", "pub * = a f *", "H = :: g H"]
        );
        assert_eq!(imports("fn f() { use super::g; }"), ["g = super g"]);
    }

    #[test]
    fn items_are_those_of_the_module_alone() {
        let source =
            "pub const fn a() { struct Inner; }\nstatic mut B: u8 = 0;\nimpl C { fn d() {} }
            macro_rules! e { () => {} }\npub(in crate::x) const F: u8 = 1;\nunion G { h: u8 }";
        let tree = Tree::of(&[("src/lib.rs", source)]);
        let mut modules = Modules::default();
        let mut items: Vec<&str> = root(&mut modules, &tree).items.iter().copied().collect();
        items.sort_unstable();
        assert_eq!(items, ["B", "F", "G", "a", "e"]);
    }

    #[test]
    fn paths_in_code_are_found_and_other_dots_are_not() {
        let source = "fn a() -> super::B { c.d::<e::F>(); crate::g::h(1) + ::std::i() }";
        let tree = Tree::of(&[("src/lib.rs", source)]);
        let mut modules = Modules::default();
        let paths = root(&mut modules, &tree).paths.iter();
        let paths: Vec<String> = paths.map(|path| path.names.join(" ")).collect();
        assert_eq!(paths, ["super B", "e F", "crate g h", ":: std i"]);
    }

    #[test]
    fn what_is_for_tests_is_left_out() {
        let source = "#[cfg(test)]\n#[rustfmt::skip]\nuse a::{b, c};\n#[cfg(test)]\nmod tests { use d::e; }
            #[cfg(test)]\nmod f;\n#[cfg(test)]\nconst G: H = H { i: 1 };\n
            struct J { #[cfg(test)] k: l::M, n: u8 }\n#[cfg(test)]\npub const fn o() where P: Q, R: S {}
            use t::u;";
        let tree = Tree::of(&[("src/lib.rs", source), ("src/f.rs", "use v::w;")]);
        let mut modules = Modules::default();
        let root = root(&mut modules, &tree);
        assert_eq!(root.imports.len(), 1);
        assert_eq!(root.imports[0].path.names, ["t", "u"]);
        assert_eq!(root.items, HashSet::from(["J"]));
        assert!(root.children.is_empty() && root.paths.is_empty());
    }

    #[test]
    fn modules_are_found_where_the_compiler_looks() {
        let tree = Tree::of(&[
            ("src/a.rs", "mod b;"),
            ("src/a/b.rs", ""),
            ("src/c/d.rs", ""),
            ("src/c/mod.rs", "mod d;"),
            ("src/e/f.rs", ""),
            ("src/g.rs", ""),
            ("src/lib.rs", "mod a;\nmod c;\nmod e { mod f; }\n#[path = \"g.rs\"]\nmod h;"),
        ]);
        let mut modules = Modules::default();
        modules.read(&tree, "src/lib.rs");
        let files: Vec<&str> = modules.all.iter().map(|module| module.file).collect();
        assert_eq!(
            files,
            [
                "src/lib.rs",
                "src/a.rs",
                "src/a/b.rs",
                "src/c/mod.rs",
                "src/c/d.rs",
                "src/lib.rs",
                "src/e/f.rs",
                "src/g.rs"
            ]
        );
    }
}
