//! Reads JSONPath as RFC 9535 defines it, and what RedisJSON allows besides: names like `a-b` and `1`
//! after a dot, a dot before brackets, and `=~` in filters.
use crate::{
    compact::compact,
    equality::string,
    error::PathError,
    jsonpath::{
        Filter, FilterQuery, Operand, Operator, Origin, PATTERN_SIZES, PathKind, Pattern, PatternSource, Segment,
        Selector, Step, counted_len,
    },
    string::{push_escaped, unit},
};

/// Deepest nesting of brackets and parentheses: filters are read and evaluated by recursion.
const MAX_NESTED: usize = 32;
/// Regular expressions in a path: each may take some milliseconds to compile.
const MAX_PATTERNS: usize = 32;
/// Length of their texts together, as [`counted_len`] counts.
const MAX_PATTERNS_LEN: usize = 64 << 10;
/// Largest index (2^53 - 1), which every implementation of RFC 9535 can hold.
const MAX_INDEX: i64 = (1 << 53) - 1;

/// Reads the segments from this byte on, up to the end of the text: how it finds values, and how many
/// queries from the root its filters have.
pub(crate) fn parse(text: &str, at: usize) -> Result<(PathKind, usize), PathError> {
    let mut parser = Parser { text, at, nested: 0, from_root: 0, patterns: 0, patterns_len: 0 };
    let mut segments = Vec::new();
    // In the older syntax a path may begin with a name.
    if at == 0 && !text.starts_with(['.', '[']) {
        segments.push(Segment { is_descendant: false, selectors: vec![parser.name()?] });
    }
    let kind = parser.segments(segments)?;
    match parser.at < text.len() {
        true => Err(parser.error("a path does not go on like this")),
        false => Ok((kind, parser.from_root)),
    }
}

struct Parser<'p> {
    text: &'p str,
    at: usize,
    nested: usize,
    from_root: usize,
    patterns: usize,
    patterns_len: usize,
}

/// A part of an expression.
enum Term {
    Value(Operand),
    Query(FilterQuery),
    Condition(Filter),
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes this text if it comes next.
    fn take(&mut self, wanted: &str) -> bool {
        let is_next = self.rest().starts_with(wanted);
        self.at += if is_next { wanted.len() } else { 0 };
        is_next
    }

    fn expect(&mut self, wanted: &str) -> Result<(), PathError> {
        match self.take(wanted) {
            true => Ok(()),
            false => Err(self.error(&format!("`{wanted}` should be here"))),
        }
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    #[cold]
    fn error(&self, what: &str) -> PathError {
        PathError(format!("{what} at byte {}", self.at))
    }

    /// What is within brackets or parentheses.
    fn nested<R>(&mut self, read: impl FnOnce(&mut Self) -> Result<R, PathError>) -> Result<R, PathError> {
        self.nested += 1;
        if self.nested > MAX_NESTED {
            return Err(PathError(format!("brackets are nested deeper than {MAX_NESTED}")));
        }
        let inside = read(self)?;
        self.nested -= 1;
        Ok(inside)
    }

    /// The segments from here on, as steps where each goes to one place.
    fn segments(&mut self, mut segments: Vec<Segment>) -> Result<PathKind, PathError> {
        loop {
            let before = self.at;
            self.skip_blanks();
            let is_descendant = self.take("..");
            let has_dot = is_descendant || self.take(".");
            let selectors = match self.peek() {
                Some(b'[') => self.brackets()?,
                Some(b'*') if has_dot => {
                    self.at += 1;
                    vec![Selector::All]
                }
                _ if has_dot => vec![self.name()?],
                _ => {
                    self.at = before;
                    break;
                }
            };
            segments.push(Segment { is_descendant, selectors });
        }
        let step = |segment: &Segment| match &*segment.selectors {
            [Selector::One(step)] if !segment.is_descendant => Some(step.clone()),
            _ => None,
        };
        let steps: Option<Vec<Step>> = segments.iter().map(step).collect();
        Ok(steps.map_or(PathKind::Segments(segments), PathKind::Steps))
    }

    /// A name after a dot.
    fn name(&mut self) -> Result<Selector, PathError> {
        let is_name = |character: char| {
            character.is_ascii_alphanumeric() || "-_`+#%$^/:".contains(character) || !character.is_ascii()
        };
        let name = self.rest();
        let name = &name[..name.find(|character| !is_name(character)).unwrap_or(name.len())];
        if name.is_empty() {
            return Err(self.error("a name, `*` or `[` should be here"));
        }
        let key = name.to_owned();
        self.at += key.len();
        Ok(Selector::One(Step::Key(key)))
    }

    /// Selectors in brackets.
    fn brackets(&mut self) -> Result<Vec<Selector>, PathError> {
        self.nested(|parser| {
            parser.expect("[")?;
            let mut selectors = Vec::new();
            loop {
                parser.skip_blanks();
                selectors.push(parser.selector()?);
                parser.skip_blanks();
                if !parser.take(",") {
                    parser.expect("]")?;
                    return Ok(selectors);
                }
            }
        })
    }

    fn selector(&mut self) -> Result<Selector, PathError> {
        match self.peek() {
            Some(b'"' | b'\'') => Ok(Selector::One(Step::Key(self.string()?))),
            Some(b'*') => {
                self.at += 1;
                Ok(Selector::All)
            }
            Some(b'?') => {
                self.at += 1;
                Ok(Selector::Filter(self.any_of()?))
            }
            Some(b'-' | b':' | b'0'..=b'9') => self.index_or_slice(),
            _ => Err(self.error("a quoted name, a number, `*` or `?` should be here")),
        }
    }

    fn index_or_slice(&mut self) -> Result<Selector, PathError> {
        let start = self.index_if_any()?;
        self.skip_blanks();
        if let (Some(index), false) = (start, self.peek() == Some(b':')) {
            return Ok(Selector::One(Step::Index(index)));
        }
        self.expect(":")?;
        self.skip_blanks();
        let stop = self.index_if_any()?;
        self.skip_blanks();
        let mut step = None;
        if self.take(":") {
            self.skip_blanks();
            step = self.index_if_any()?;
        }
        Ok(Selector::Slice { start, stop, step: step.unwrap_or(1) })
    }

    /// A whole number, without zeros before it.
    fn index_if_any(&mut self) -> Result<Option<i64>, PathError> {
        let len = self.rest().bytes().take_while(|byte| matches!(byte, b'-' | b'0'..=b'9')).count();
        if len == 0 {
            return Ok(None);
        }
        let number = &self.rest()[..len];
        let digits = number.strip_prefix('-').unwrap_or(number);
        if number == "-0" || digits.len() > 1 && digits.starts_with('0') || digits.is_empty() || digits.contains('-') {
            return Err(self.error("this is not an index"));
        }
        let index = number.parse().ok().filter(|index| (-MAX_INDEX..=MAX_INDEX).contains(index));
        let index = index.ok_or_else(|| self.error(&format!("an index is at most {MAX_INDEX}")))?;
        self.at += len;
        Ok(Some(index))
    }

    /// A string in quotes of either kind.
    fn string(&mut self) -> Result<String, PathError> {
        let quote = self.peek().unwrap_or_default();
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let plain =
                rest.find(|character| matches!(character, '"' | '\'' | '\\' | '\0'..=' ')).unwrap_or(rest.len());
            out.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(end) if end == quote => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape(quote)?),
                Some(0..0x20) => return Err(self.error("a control character within a string")),
                Some(other) => {
                    out.push(char::from(other));
                    self.at += 1;
                }
                None => return Err(self.error("the path ends within a string")),
            }
        }
    }

    /// An escape within a string.
    fn escape(&mut self, quote: u8) -> Result<char, PathError> {
        let wrong = |parser: &Self| parser.error("this is not an escape of JSONPath");
        let escaped = match self.text.as_bytes().get(self.at + 1) {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(other @ (b'/' | b'\\')) => char::from(*other),
            Some(other) if *other == quote => char::from(quote),
            Some(b'u') => return self.unicode(),
            _ => return Err(wrong(self)),
        };
        self.at += 2;
        Ok(escaped)
    }

    /// A character as `\uXXXX`, or as two of them.
    fn unicode(&mut self) -> Result<char, PathError> {
        let code_unit = |at: usize| {
            let escape = self.text.as_bytes().get(at..at + 6)?;
            unit(escape.strip_prefix(b"\\u")?)
        };
        let first = code_unit(self.at);
        let second = first.filter(|first| (0xd800..0xdc00).contains(first)).and_then(|_| code_unit(self.at + 6));
        let mut decoded = char::decode_utf16(first.into_iter().chain(second));
        match (decoded.next(), decoded.next()) {
            (Some(Ok(character)), None) => {
                self.at += if second.is_some() { 12 } else { 6 };
                Ok(character)
            }
            _ => Err(self.error("this is not an escape of a character")),
        }
    }

    /// Conditions with `||` between them.
    fn any_of(&mut self) -> Result<Filter, PathError> {
        let mut filters = vec![self.all_of()?];
        while self.take("||") {
            filters.push(self.all_of()?);
        }
        Ok(if filters.len() == 1 { filters.remove(0) } else { Filter::Or(filters) })
    }

    /// Conditions with `&&` between them, and the blanks around.
    fn all_of(&mut self) -> Result<Filter, PathError> {
        let mut filters = Vec::new();
        loop {
            self.skip_blanks();
            filters.push(self.condition()?);
            self.skip_blanks();
            if !self.take("&&") {
                return Ok(if filters.len() == 1 { filters.remove(0) } else { Filter::And(filters) });
            }
        }
    }

    fn condition(&mut self) -> Result<Filter, PathError> {
        if self.take("!") {
            self.skip_blanks();
            let filter = match self.peek() {
                Some(b'(') => self.parentheses()?,
                _ => {
                    let term = self.term()?;
                    self.test(term)?
                }
            };
            return Ok(Filter::Not(Box::new(filter)));
        }
        if self.peek() == Some(b'(') {
            return self.parentheses();
        }
        let left = self.term()?;
        let before = self.at;
        self.skip_blanks();
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        if self.take("=~") {
            let text = self.operand(left)?;
            let pattern = self.right_side()?;
            return self.matches(text, pattern, false);
        }
        let Some((_, operator)) = operators.into_iter().find(|(text, _)| self.take(text)) else {
            self.at = before;
            return self.test(left);
        };
        let left = self.operand(left)?;
        Ok(Filter::Compare(left, operator, self.right_side()?))
    }

    fn right_side(&mut self) -> Result<Operand, PathError> {
        self.skip_blanks();
        let right = self.term()?;
        self.operand(right)
    }

    fn parentheses(&mut self) -> Result<Filter, PathError> {
        self.nested(|parser| {
            parser.expect("(")?;
            let filter = parser.any_of()?;
            parser.expect(")")?;
            Ok(filter)
        })
    }

    /// A term that stands alone.
    fn test(&self, term: Term) -> Result<Filter, PathError> {
        match term {
            Term::Condition(filter) => Ok(filter),
            Term::Query(query) => Ok(Filter::Exists(query)),
            Term::Value(_) => Err(self.error("a value is no condition: a comparison should be here")),
        }
    }

    /// A term that is compared.
    fn operand(&self, term: Term) -> Result<Operand, PathError> {
        match term {
            Term::Value(operand) => Ok(operand),
            Term::Query(query @ FilterQuery { kind: PathKind::Steps(_), .. }) => Ok(Operand::Query(query)),
            Term::Query(_) => Err(self.error("a path that may find several values cannot be compared; it ends")),
            Term::Condition(_) => Err(self.error("a condition cannot be compared; it ends")),
        }
    }

    fn term(&mut self) -> Result<Term, PathError> {
        match self.peek() {
            Some(b'"' | b'\'') => {
                let text = self.string()?;
                let mut json = vec![b'"'];
                push_escaped(&mut json, text.as_bytes());
                json.push(b'"');
                Ok(Term::Value(Operand::Literal(json)))
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'@' | b'$') => Ok(Term::Query(self.query()?)),
            Some(b'a'..=b'z') => self.word(),
            _ => Err(self.error("a path, a value or a function should be here")),
        }
    }

    /// A number of JSON.
    fn number(&mut self) -> Result<Term, PathError> {
        let is_part = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
        let len = self.rest().bytes().take_while(is_part).count();
        let number = compact(&self.rest().as_bytes()[..len]).map_err(|_| self.error("this is not a number"))?;
        self.at += len;
        Ok(Term::Value(Operand::Literal(number)))
    }

    fn query(&mut self) -> Result<FilterQuery, PathError> {
        let is_root = self.peek() == Some(b'$');
        self.at += 1;
        let kind = self.segments(Vec::new())?;
        let origin = if is_root { Origin::Root(self.from_root) } else { Origin::Current };
        self.from_root += usize::from(is_root);
        Ok(FilterQuery { origin, kind })
    }

    /// A literal or a function.
    fn word(&mut self) -> Result<Term, PathError> {
        let is_word = |byte: &u8| matches!(byte, b'a'..=b'z' | b'_' | b'0'..=b'9');
        let len = self.rest().bytes().take_while(is_word).count();
        let word = &self.rest()[..len];
        if let "true" | "false" | "null" = word {
            let literal = word.as_bytes().to_vec();
            self.at += len;
            return Ok(Term::Value(Operand::Literal(literal)));
        }
        let word = word.to_owned();
        let unknown = self.error(&format!("`{word}` is neither a function nor a value"));
        self.at += len;
        self.nested(|parser| {
            parser.expect("(")?;
            parser.skip_blanks();
            let term = match &*word {
                "length" => {
                    let of = parser.term()?;
                    Term::Value(Operand::Length(Box::new(parser.operand(of)?)))
                }
                "count" => Term::Value(Operand::Count(parser.argument()?)),
                "value" => Term::Value(Operand::Value(parser.argument()?)),
                "match" | "search" => {
                    let text = parser.term()?;
                    let text = parser.operand(text)?;
                    parser.skip_blanks();
                    parser.expect(",")?;
                    let pattern = parser.right_side()?;
                    Term::Condition(parser.matches(text, pattern, word == "match")?)
                }
                _ => return Err(unknown),
            };
            parser.skip_blanks();
            parser.expect(")")?;
            Ok(term)
        })
    }

    /// A path as an argument.
    fn argument(&mut self) -> Result<FilterQuery, PathError> {
        match self.peek() {
            Some(b'@' | b'$') => self.query(),
            _ => Err(self.error("a path should be here")),
        }
    }

    fn matches(&mut self, text: Operand, pattern: Operand, is_whole: bool) -> Result<Filter, PathError> {
        let pattern = match pattern {
            Operand::Literal(json) if json.first() == Some(&b'"') => {
                self.patterns += 1;
                if self.patterns > MAX_PATTERNS {
                    return Err(PathError(format!("the path has more than {MAX_PATTERNS} regular expressions")));
                }
                let text = String::from_utf8_lossy(&string(&json)).into_owned();
                self.patterns_len += counted_len(&text);
                let sizes = if self.patterns_len <= MAX_PATTERNS_LEN { &PATTERN_SIZES[..] } else { &[] };
                let pattern = sizes.iter().find_map(|size| Pattern::new(&text, is_whole, *size).ok());
                PatternSource::Fixed(pattern.ok_or_else(|| self.error("the regular expression is too large; it ends"))?)
            }
            operand => PatternSource::Operand(operand),
        };
        Ok(Filter::Matches { text, pattern, is_whole })
    }
}
