//! Which file of a crate imports which: the syntax trees of all of them, searched for paths.
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use syn::{
    Attribute, ItemMod, ItemUse, UseTree,
    visit::{self, Visit},
};

/// The path of a module within its crate; that of `lib.rs` is empty.
pub(crate) type Module = Vec<String>;

/// The files of a crate and what each imports.
pub(crate) struct Graph(BTreeMap<Module, BTreeSet<Module>>);

impl Graph {
    /// Reads all files below the crate's `src`.
    pub(crate) fn read(src: &Path) -> Graph {
        let mut files = BTreeMap::new();
        find(src, &mut Vec::new(), &mut files);
        let known: BTreeSet<Module> = files.keys().cloned().collect();
        let imports = |(module, path): (&Module, &PathBuf)| {
            let text = fs::read_to_string(path).unwrap();
            let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let mut finder = Finder { module: module.clone(), inline: 0, known: &known, imports: BTreeSet::new() };
            finder.visit_file(&file);
            finder.imports.remove(module);
            (module.clone(), finder.imports)
        };
        Graph(files.iter().map(imports).collect())
    }

    pub(crate) fn modules(&self) -> impl Iterator<Item = &Module> {
        self.0.keys()
    }

    /// Each import: from, to.
    pub(crate) fn imports(&self) -> impl Iterator<Item = (&Module, &Module)> {
        self.0.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)))
    }

    /// Sets of files of which each imports each other, directly or by way of others.
    pub(crate) fn circles(&self) -> Vec<Vec<&Module>> {
        let reach: BTreeMap<&Module, BTreeSet<&Module>> = self.0.keys().map(|from| (from, self.reach(from))).collect();
        let mut circles: Vec<Vec<&Module>> = Vec::new();
        for module in self.0.keys() {
            if !reach[module].contains(module) || circles.iter().any(|circle| circle.contains(&module)) {
                continue;
            }
            circles.push(reach[module].iter().copied().filter(|other| reach[*other].contains(module)).collect());
        }
        circles
    }

    fn reach<'g>(&'g self, from: &Module) -> BTreeSet<&'g Module> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![&self.0[from]]);
        while let Some(imports) = next.pop() {
            for to in imports {
                if reached.insert(to) {
                    next.push(&self.0[to]);
                }
            }
        }
        reached
    }
}

/// The files of a folder by the modules that they are; tests are none.
fn find(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if stem == "tests" {
            continue;
        }
        if path.is_dir() {
            module.push(stem);
            find(&path, module, files);
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut module = module.clone();
            match stem.as_str() {
                // A program is not imported.
                "main" if module.is_empty() => continue,
                "lib" if module.is_empty() => {}
                "mod" => {}
                _ => module.push(stem),
            }
            files.insert(module, path);
        }
    }
}

struct Finder<'g> {
    module: Module,
    /// How many inline modules (`mod name { … }`) are around the place.
    inline: usize,
    known: &'g BTreeSet<Module>,
    imports: BTreeSet<Module>,
}

impl Finder<'_> {
    fn path(&mut self, path: &[String]) {
        let Some(first) = path.first() else { return };
        let mut at = self.module.clone();
        let mut rest = path;
        match first.as_str() {
            "crate" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" | "super" => {
                let mut inline = self.inline;
                while let Some(step) = rest.first().filter(|step| matches!(step.as_str(), "self" | "super")) {
                    if step == "super" && inline > 0 {
                        inline -= 1;
                    } else if step == "super" {
                        at.pop();
                    }
                    rest = &rest[1..];
                }
            }
            // `child::Thing` in the file that declares `mod child`.
            child => {
                at.push(child.to_owned());
                if !self.known.contains(&at) {
                    return;
                }
                rest = &rest[1..];
            }
        }
        let mut found = self.known.contains(&at).then(|| at.clone());
        for step in rest {
            at.push(step.clone());
            if self.known.contains(&at) {
                found = Some(at.clone());
            } else {
                break;
            }
        }
        self.imports.extend(found);
    }

    fn tree(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(tree, before)),
            UseTree::Glob(_) => self.path(before),
            UseTree::Name(name) => self.leaf(name.ident.to_string(), before),
            UseTree::Rename(rename) => self.leaf(rename.ident.to_string(), before),
        }
    }

    fn leaf(&mut self, name: String, before: &mut Vec<String>) {
        if name == "self" {
            return self.path(before);
        }
        before.push(name);
        self.path(before);
        before.pop();
    }
}

/// `#[cfg(test)]`, or a condition that needs it.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute
                    .meta
                    .require_list()
                    .is_ok_and(|list| list.tokens.clone().into_iter().any(|token| token.to_string() == "test"))
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if is_test(&item.attrs) {
            return;
        }
        let inline = usize::from(item.content.is_some());
        self.inline += inline;
        visit::visit_item_mod(self, item);
        self.inline -= inline;
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_test(&item.attrs) {
            self.tree(&item.tree, &mut Vec::new());
        }
    }

    /// Who may see an item is no import.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.path(&segments);
        }
        visit::visit_path(self, path);
    }
}
