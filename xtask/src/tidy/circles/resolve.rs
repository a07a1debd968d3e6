//! From paths to files: the file that defines the item of a module's path.
//!
//! A re-export is followed to the definition, through any number of modules. Names of other crates
//! lead nowhere.

use super::modules::{Module, Modules};

/// Where a path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A module itself.
    Module(usize),
    /// An item that this module defines.
    Item(usize),
}

/// The modules of a crate and its own names for its library.
pub struct Crate<'a> {
    /// Modules of its library and programs.
    pub modules: Modules<'a>,
    /// Root of its library, and the library's name in its programs, as `sockscope_lab`.
    pub library: Option<(usize, String)>,
}

impl<'a> Crate<'a> {
    fn module(&self, index: usize) -> &Module<'a> {
        &self.modules.all[index]
    }

    /// The meaning of `names` in the module `from`; `None` when it belongs to another crate. A last
    /// `*` means the module before it.
    pub fn resolve(&self, from: usize, names: &[&str]) -> Option<Target> {
        self.follow(from, names, &mut Vec::new())
    }

    /// The meaning of `word` in `from` by way of the `use` of `path`, which ends in `*`.
    pub fn brought(&self, from: usize, path: &[&str], word: &str) -> Option<Target> {
        match self.resolve(from, path)? {
            Target::Module(source) => self.name(source, word, true, &mut Vec::new()),
            Target::Item(_) => None,
        }
    }

    fn follow<'n>(
        &self,
        from: usize,
        names: &[&'n str],
        seen: &mut Vec<(usize, &'n str)>,
    ) -> Option<Target>
    where
        'a: 'n,
    {
        let (first, mut rest) = names.split_first()?;
        let mut at = match *first {
            "crate" => Target::Module(self.root(from)),
            "self" => Target::Module(from),
            "super" => Target::Module(self.module(from).parent?),
            name => match self.name(from, name, rest.is_empty(), seen) {
                Some(target) => target,
                None => self.library_named(name)?,
            },
        };
        while let (Target::Module(module), Some((name, after))) = (at, rest.split_first()) {
            if *name == "*" {
                break;
            }
            at = match (*name, self.name(module, name, after.is_empty(), seen)) {
                ("super", _) => Target::Module(self.module(module).parent?),
                (_, Some(target)) => target,
                (name, None) if self.imports(module, name) => return None,
                // A name without a declaration: a macro of that module makes the item.
                _ => Target::Item(module),
            };
            rest = after;
        }
        Some(at)
    }

    /// The meaning of `name` in `module`. As the last name of a path it may be an item and a module at
    /// once; the item counts then.
    fn name<'n>(
        &self,
        module: usize,
        name: &'n str,
        is_last: bool,
        seen: &mut Vec<(usize, &'n str)>,
    ) -> Option<Target>
    where
        'a: 'n,
    {
        if seen.contains(&(module, name)) {
            return None;
        }
        let of = self.module(module);
        let child = of.children.get(name).map(|child| Target::Module(*child));
        if child.is_some() && !is_last {
            return child;
        }
        if of.items.contains(name) {
            return Some(Target::Item(module));
        }
        seen.push((module, name));
        let named = of.imports.iter().filter(|import| import.name == name);
        // Of a module and an item of one name, only the module leads on.
        let mut found = named
            .filter_map(|import| self.follow(module, &import.path.names, seen))
            .max_by_key(|target| matches!(target, Target::Item(_)) == is_last);
        if found.is_none() && child.is_none() {
            let mut all = of.imports.iter().filter(|import| import.name == "*");
            found = all.find_map(|import| match self.follow(module, &import.path.names, seen)? {
                Target::Module(source) => self.name(source, name, is_last, seen),
                Target::Item(_) => None,
            });
        }
        seen.pop();
        found.or(child)
    }

    fn imports(&self, module: usize, name: &str) -> bool {
        self.module(module).imports.iter().any(|import| import.name == name)
    }

    fn root(&self, from: usize) -> usize {
        let mut at = from;
        while let Some(parent) = self.module(at).parent {
            at = parent;
        }
        at
    }

    fn library_named(&self, name: &str) -> Option<Target> {
        let (root, library) = self.library.as_ref()?;
        (library == name).then_some(Target::Module(*root))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn file_of(files: &[(&str, &str)], from: &str, path: &str) -> String {
        let tree = Tree::of(files);
        let mut modules = Modules::default();
        let root = modules.read(&tree, "src/lib.rs").expect("a root");
        let from = modules.all.iter().position(|module| module.file == from).expect("a module");
        let this = Crate { modules, library: Some((root, "this".to_owned())) };
        let names: Vec<&str> = path.split("::").collect();
        match this.resolve(from, &names) {
            Some(Target::Item(module)) => this.module(module).file.to_owned(),
            Some(Target::Module(module)) => format!("module {}", this.module(module).file),
            None => "nowhere".to_owned(),
        }
    }

    const FILES: &[(&str, &str)] = &[
        ("src/a.rs", "pub struct A;\nuse std::fmt;"),
        ("src/b/c.rs", "pub struct C;\npub fn d() {}\nmade!(E);"),
        ("src/b/d.rs", "pub struct F;"),
        ("src/b/mod.rs", "mod c;\npub mod d;\npub use c::{C as Renamed, d};\npub use d::*;"),
        ("src/lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::Renamed as Again;"),
    ];

    #[test]
    fn a_reexport_leads_to_the_file_that_defines_the_item() {
        assert_eq!(file_of(FILES, "src/b/c.rs", "crate::A"), "src/a.rs");
        assert_eq!(file_of(FILES, "src/a.rs", "crate::Again::new"), "src/b/c.rs");
        assert_eq!(file_of(FILES, "src/a.rs", "this::Again"), "src/b/c.rs");
        assert_eq!(file_of(FILES, "src/b/c.rs", "super::super::a::A"), "src/a.rs");
        assert_eq!(file_of(FILES, "src/a.rs", "crate::b::F"), "src/b/d.rs");
    }

    #[test]
    fn an_item_and_a_module_of_one_name_are_told_apart_by_what_follows() {
        assert_eq!(file_of(FILES, "src/a.rs", "crate::b::d"), "src/b/c.rs");
        assert_eq!(file_of(FILES, "src/a.rs", "crate::b::d::F"), "src/b/d.rs");
        assert_eq!(file_of(FILES, "src/lib.rs", "b"), "module src/b/mod.rs");
    }

    #[test]
    fn an_item_made_by_a_macro_belongs_to_its_module_and_other_crates_to_none() {
        assert_eq!(file_of(FILES, "src/a.rs", "crate::b::c::E"), "src/b/c.rs");
        assert_eq!(file_of(FILES, "src/b/c.rs", "crate::a::fmt::Write"), "nowhere");
        assert_eq!(file_of(FILES, "src/a.rs", "std::fmt"), "nowhere");
        assert_eq!(file_of(FILES, "src/a.rs", "::this::A"), "nowhere");
    }

    #[test]
    fn imports_that_name_each_other_end() {
        let files = [
            ("src/a.rs", "pub use crate::b::X;"),
            ("src/b.rs", "pub use crate::a::X;"),
            ("src/lib.rs", "mod a;\nmod b;"),
        ];
        assert_eq!(file_of(&files, "src/a.rs", "crate::b::X"), "nowhere");
    }
}
