use super::*;
use proptest::prelude::*;

/// Everything that a parser makes of `input` when it arrives in pieces of the given sizes (the last
/// repeats).
fn feed(input: &[u8], sizes: &[usize], limits: &Limits) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let mut parser = Parser::default();
    let mut commands = Vec::new();
    let mut buffer: Vec<u8> = Vec::new();
    let mut arrived = 0;
    let mut sizes = sizes.iter().copied().chain(std::iter::repeat(*sizes.last().unwrap_or(&1)));
    loop {
        match parser.parse(&buffer, limits) {
            Err(error) => return (commands, Some(error)),
            Ok(Parsed::Command { consumed }) => {
                let args = parser.args(&buffer);
                assert_eq!(args.from(0).len(), args.len());
                commands.push(args.from(0).map(<[u8]>::to_vec).collect());
                buffer.drain(..consumed);
            }
            Ok(Parsed::Incomplete { more }) => {
                assert!(more > 0);
                if arrived == input.len() {
                    return (commands, None);
                }
                let step = sizes.next().expect("endless").max(1).min(input.len() - arrived);
                buffer.extend_from_slice(&input[arrived..arrived + step]);
                arrived += step;
            }
        }
    }
}
fn all(input: &[u8]) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    feed(input, &[input.len()], &Limits::new(1024))
}
fn words(command: &[&str]) -> Vec<Vec<u8>> {
    command.iter().map(|w| w.as_bytes().to_vec()).collect()
}
fn error_text(error: ProtocolError) -> String {
    let mut out = Output::default();
    error.reply(&mut out);
    String::from_utf8(out.to_vec()).expect("ASCII")
}

#[test]
fn arrays_and_lines() {
    let (commands, error) = all(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n\r\n*0\r\n*-1\r\n  set a  'b c'\n");
    assert_eq!(error, None);
    assert_eq!(
        commands,
        [words(&["GET", "k"]), words(&["PING"]), vec![], vec![], vec![], words(&["set", "a", "b c"]),]
    );
}

#[test]
fn quotes() {
    let one = |line: &str| all(line.as_bytes());
    assert_eq!(
        one("a \"x\\x41\\n\\\"\\q\" 'it\\'s' \"\"\r\n").0,
        [vec![b"a".to_vec(), b"xA\n\"q".to_vec(), b"it's".to_vec(), vec![]]]
    );
    for bad in ["\"a\n", "'a\n", "\"a\"b\n", "'a'b\n", "a\"b\n", "\"\\\"\n"] {
        assert_eq!(one(bad).1, Some(ProtocolError::UnbalancedQuotes), "{bad:?}");
    }
    // A quote that opens within a word belongs to the word.
    assert_eq!(one("a\"b c\"\n").0, [words(&["ab c"])]);
    assert_eq!(one("\"\\xzz\"\n").0, [words(&["xzz"])]);
}

#[test]
fn error_texts() {
    let over = "9".repeat(MAX_LINE + 1);
    let cases: &[(String, &str)] = &[
        ("*x\r\n".into(), "invalid multibulk length"),
        ("*2147483648\r\n".into(), "invalid multibulk length"),
        ("*20000000000\r\n".into(), "invalid multibulk length"),
        ("*01\r\n".into(), "invalid multibulk length"),
        ("*\r\n".into(), "invalid multibulk length"),
        ("*1\r\n$x\r\n".into(), "invalid bulk length"),
        ("*1\r\n$-1\r\n".into(), "invalid bulk length"),
        (format!("*1\r\n${}\r\n", 1024 + BULK_SLACK + 1), "invalid bulk length"),
        ("*1\r\n$99999999999999999999\r\n".into(), "invalid bulk length"),
        ("*1\r\n:1\r\n".into(), "expected '$', got ':'"),
        ("*1\r\nfooz\r\n".into(), "expected '$', got 'f'"),
        ("*1\r\n\r\n".into(), "expected '$', got ' '"),
        (over.clone(), "too big inline request"),
        (format!("*{over}"), "too big mbulk count string"),
        (format!("*1\r\n${over}"), "too big bulk count string"),
        ("a 'b\r\n".into(), "unbalanced quotes in request"),
    ];
    for (input, text) in cases {
        let (_, error) = all(input.as_bytes());
        let error = error.unwrap_or_else(|| panic!("{:?} is refused", &input[..input.len().min(40)]));
        assert_eq!(error_text(error), format!("-ERR Protocol error: {text}\r\n"));
    }
}

/// As in Redis: no more slots are kept than arguments have come.
#[test]
fn the_number_of_arguments_is_bounded_by_an_int() {
    let limits = Limits::new(1024);
    for count in [1_048_577, i32::MAX] {
        let mut parser = Parser::default();
        let input = format!("*{count}\r\n$1\r\na\r\n");
        assert_eq!(parser.parse(input.as_bytes(), &limits), Ok(Parsed::Incomplete { more: 1 }), "{count}");
        assert!(parser.owned() < 100, "{}", parser.owned());
    }
    let count = 1_100_000;
    let input = format!("*{count}\r\n{}", "$0\r\n\r\n".repeat(count));
    let mut parser = Parser::default();
    assert_eq!(parser.parse(input.as_bytes(), &limits), Ok(Parsed::Command { consumed: input.len() }));
    assert_eq!(parser.args(input.as_bytes()).len(), count);
}

#[test]
fn clients_without_a_password_are_kept_short() {
    let limits = Limits { authenticated: false, ..Limits::new(1024 * 1024) };
    let parse = |input: &str| feed(input.as_bytes(), &[input.len()], &limits).1.map(error_text);
    assert_eq!(parse("*10\r\n"), None);
    assert_eq!(parse("*11\r\n").as_deref(), Some("-ERR Protocol error: unauthenticated multibulk length\r\n"));
    assert_eq!(parse("*1\r\n$16384\r\n"), None);
    assert_eq!(parse("*1\r\n$16385\r\n").as_deref(), Some("-ERR Protocol error: unauthenticated bulk length\r\n"));
}

#[test]
fn a_command_is_bounded_in_total() {
    let limits = Limits { max_command: 1000, ..Limits::new(400) };
    let input = format!("*3\r\n{0}{0}{0}", format!("$400\r\n{}\r\n", "x".repeat(400)));
    let (_, error) = feed(input.as_bytes(), &[input.len()], &limits);
    assert_eq!(error, Some(ProtocolError::BigCommand(1000, "max-value")));
}

#[test]
fn says_how_much_of_a_large_bulk_is_missing() {
    let limits = Limits::new(200 * 1024 * 1024);
    let mut parser = Parser::default();
    let mut input = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$104857600\r\nabc".to_vec();
    let missing = 104_857_600 - 3 + 2;
    assert_eq!(parser.parse(&input, &limits), Ok(Parsed::Incomplete { more: missing }));
    input.resize(input.len() + missing - 1, b'x');
    assert_eq!(parser.parse(&input, &limits), Ok(Parsed::Incomplete { more: 1 }));
    input.push(b'\n');
    assert_eq!(parser.parse(&input, &limits), Ok(Parsed::Command { consumed: input.len() }));
    assert_eq!(parser.args(&input)[2].len(), 104_857_600);
}

#[test]
fn gives_back_room_for_many_arguments() {
    let mut parser = Parser::default();
    let mut input = format!("*{}\r\n", 100_000).into_bytes();
    input.extend(std::iter::repeat_n(&b"$1\r\nx\r\n"[..], 100_000).flatten());
    assert!(matches!(parser.parse(&input, &Limits::new(1024)), Ok(Parsed::Command { .. })));
    assert!(parser.ranges.capacity() >= 100_000);
    assert!(matches!(parser.parse(b"*1\r\n$1\r\nx\r\n", &Limits::new(1024)), Ok(Parsed::Command { .. })));
    assert!(parser.ranges.capacity() <= KEPT_ARGS);
}

/// The protocol written down without cleverness: whole input, one value after the other.
fn model(mut input: &[u8], limits: &Limits) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let mut commands = Vec::new();
    'next: loop {
        if input.is_empty() {
            return (commands, None);
        }
        if input[0] != b'*' {
            let Some(end) = input.iter().position(|&b| b == b'\n') else {
                return (commands, None);
            };
            let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
            let plain = line.split(|b| is_space(*b)).filter(|w| !w.is_empty());
            commands.push(plain.map(<[u8]>::to_vec).collect());
            input = &input[end + 1..];
            continue;
        }
        let line = |from: &mut &[u8]| -> Option<Vec<u8>> {
            let cr = from.iter().position(|&b| b == b'\r')?;
            if cr + 2 > from.len() {
                return None;
            }
            let line = from[..cr].to_vec();
            *from = &from[cr + 2..];
            Some(line)
        };
        let Some(header) = line(&mut input) else {
            return (commands, None);
        };
        let Some(count) = parse_i64(&header[1..]) else {
            return (commands, Some(ProtocolError::MultibulkLength));
        };
        if count > MAX_ARGS as i64 {
            return (commands, Some(ProtocolError::MultibulkLength));
        }
        let mut command = Vec::new();
        for _ in 0..count {
            let mut rest = input;
            let Some(header) = line(&mut rest) else {
                break 'next;
            };
            if header.first() != Some(&b'$') {
                let got = header.first().copied().unwrap_or(b'\r');
                return (commands, Some(ProtocolError::Expected(got)));
            }
            let length = match parse_i64(&header[1..]) {
                Some(length) if length >= 0 && length as usize <= limits.max_bulk => length as usize,
                _ => return (commands, Some(ProtocolError::BulkLength)),
            };
            if rest.len() < length + 2 {
                break 'next;
            }
            command.push(rest[..length].to_vec());
            input = &rest[length + 2..];
        }
        commands.push(command);
    }
    (commands, None)
}

/// Mostly well-formed input, with damage.
fn input() -> impl Strategy<Value = Vec<u8>> {
    // Without the bytes that inline commands treat specially, which the model does not know.
    let byte = prop::sample::select(&b"abz 019*$\r\n\xff"[..]);
    let array = proptest::collection::vec(proptest::collection::vec(byte, 0..30), 0..6).prop_map(|args| {
        let mut out = Vec::new();
        write_array(&mut out, &args);
        out
    });
    let piece = prop_oneof![
        6 => array,
        2 => "[a-z ]{0,12}\r?\n".prop_map(String::into_bytes),
        1 => "[*$][0-9-]{0,3}\r\n".prop_map(String::into_bytes),
        1 => "[*$:+\r\na0-9-]{1,4}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}
fn write_array(out: &mut Vec<u8>, args: &[Vec<u8>]) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

proptest! {
    #[test]
    fn agrees_with_the_model_however_it_arrives(
        input in input(),
        sizes in proptest::collection::vec(1usize..9, 1..20),
    ) {
        let limits = Limits::new(1024);
        let expected = model(&input, &limits);
        prop_assert_eq!(feed(&input, &[input.len().max(1)], &limits), expected.clone());
        prop_assert_eq!(feed(&input, &sizes, &limits), expected);
    }

    #[test]
    fn every_split_point(args in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 1..5)) {
        let limits = Limits::new(1024);
        let mut input = Vec::new();
        write_array(&mut input, &args);
        write_array(&mut input, &args);
        for split in 0..=input.len() {
            let (commands, error) = feed(&input, &[split, input.len()], &limits);
            prop_assert_eq!(error, None);
            prop_assert_eq!(&commands, &vec![args.clone(), args.clone()]);
        }
    }

    #[test]
    fn quoted_words_come_back(words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..10), 1..5)) {
        let quoted = |byte: &u8| format!("\\x{byte:02x}");
        let line: Vec<String> = words
            .iter()
            .map(|word| format!("\"{}\"", word.iter().map(quoted).collect::<String>()))
            .collect();
        let (commands, error) = all(format!("{}\r\n", line.join("  ")).as_bytes());
        prop_assert_eq!(error, None);
        prop_assert_eq!(commands, vec![words]);
    }

    #[test]
    fn the_glance_ahead_sees_what_the_parser_sees(
        keys in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..12), 1..4),
        value: Option<Vec<u8>>,
        at: prop::sample::Index,
        byte: u8,
        cut: prop::sample::Index,
    ) {
        let encoded = |key: &Vec<u8>| match &value {
            None => crate::resp::encode(&[b"get", key.as_slice()]),
            Some(value) => crate::resp::encode(&[b"set", key, value]),
        };
        let mut input: Vec<u8> = keys.iter().flat_map(encoded).collect();
        let at = at.index(input.len());
        input[at] = byte;
        input.truncate(cut.index(input.len() + 1));
        let gets = gets_ahead(&input).map(|(key, len)| (vec![b"get", key], len));
        let sets = sets_ahead(&input).map(|(key, value, len)| (vec![b"set", key, value], len));
        for ahead in [gets.collect::<Vec<_>>(), sets.collect()] {
            let (mut parser, mut rest) = (Parser::default(), &input[..]);
            for (expected, len) in ahead {
                prop_assert_eq!(parser.parse(rest, &Limits::new(1024)), Ok(Parsed::Command { consumed: len }));
                let args = parser.args(rest);
                let found: Vec<_> = (0..args.len()).map(|at| args.get(at).unwrap()).collect();
                prop_assert!(found[0].eq_ignore_ascii_case(expected[0]));
                prop_assert_eq!(&found[1..], &expected[1..]);
                rest = &rest[len..];
            }
        }
    }

    #[test]
    fn the_first_arguments_are_those_that_the_parser_sees(
        commands in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 1..4), 1..4),
        at: prop::sample::Index,
        byte: u8,
        cut: prop::sample::Index,
    ) {
        let encoded = |command: &Vec<Vec<u8>>| {
            crate::resp::encode(&command.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        let mut input: Vec<u8> = commands.iter().flat_map(encoded).collect();
        let whole: Vec<_> = first_arguments(&input).map(|argument| argument.map(<[u8]>::to_vec)).collect();
        let expected: Vec<_> = commands.iter().map(|command| command.get(1).cloned()).collect();
        prop_assert_eq!(whole, expected);
        // What is damaged or cut is the parser's to refuse; the glance sees nothing that the parser does not.
        let at = at.index(input.len());
        input[at] = byte;
        input.truncate(cut.index(input.len() + 1));
        let (mut parser, mut rest) = (Parser::default(), &input[..]);
        for argument in first_arguments(&input) {
            let Ok(Parsed::Command { consumed }) = parser.parse(rest, &Limits::new(1024)) else { break };
            prop_assert_eq!(parser.args(rest).get(1), argument);
            rest = &rest[consumed..];
        }
    }

    #[test]
    fn the_commands_ahead_are_those_that_the_parser_sees(
        commands in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 1..4), 1..4),
        cut: prop::sample::Index,
    ) {
        let encoded = |command: &Vec<Vec<u8>>| {
            crate::resp::encode(&command.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        let input: Vec<u8> = commands.iter().flat_map(encoded).collect();
        let ahead: Vec<_> = commands_ahead(&input).collect();
        let expected: Vec<_> =
            commands.iter().map(|command| Ok((command[0].as_slice(), command.get(1).map(Vec::as_slice)))).collect();
        prop_assert_eq!(ahead, expected);
        // Whatever is cut off is seen to be missing, unless it is whole commands.
        let cut = &input[..cut.index(input.len())];
        let (mut parser, mut rest) = (Parser::default(), cut);
        while let Ok(Parsed::Command { consumed }) = parser.parse(rest, &Limits::new(1024)) {
            rest = &rest[consumed..];
        }
        let is_part = !rest.is_empty() || cut.is_empty();
        prop_assert_eq!(commands_ahead(cut).any(|command| command.is_err()), is_part);
    }
}

#[test]
fn the_glance_ahead_sees_whole_plain_sets_and_stops_at_anything_else() {
    let ahead = |input: &[u8]| sets_ahead(input).map(|(key, value, _)| [key, value].concat()).collect::<Vec<_>>();
    let sets = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n*3\r\n$3\r\nset\r\n$2\r\n\r\n\r\n$1\r\nb\r\n";
    assert_eq!(ahead(sets), [b"a".to_vec(), b"\r\nb".to_vec()]);
    for end in 0..sets.len() {
        assert_eq!(ahead(&sets[..end]).len(), usize::from(end >= 26), "cut at {end}");
    }
    for other in [
        "*3\r\n$3\r\nGET\r\n$1\r\na\r\n$1\r\nb\r\n",
        "*4\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n$2\r\nNX\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$01\r\nb\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$9999999999\r\nb\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\na\r\n:1\r\nb\r\n",
    ] {
        assert_eq!(ahead(other.as_bytes()), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn the_glance_ahead_sees_whole_plain_gets_and_stops_at_anything_else() {
    let ahead = |input: &[u8]| gets_ahead(input).map(|(key, _)| key.to_vec()).collect::<Vec<_>>();
    let gets = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nget\r\n$2\r\n\r\n\r\n";
    assert_eq!(ahead(gets), [b"a".to_vec(), b"\r\n".to_vec()]);
    for end in 0..gets.len() {
        assert_eq!(ahead(&gets[..end]).len(), usize::from(end >= 20), "cut at {end}");
    }
    for other in [
        "*2\r\n$3\r\nDEL\r\n$1\r\na\r\n",
        "*3\r\n$3\r\nGET\r\n$1\r\na\r\n",
        "*2\r\n$3\r\nGET\r\n$x\r\na\r\n",
        "*2\r\n$3\r\nGET\r\n$01\r\na\r\n",
        "*2\r\n$3\r\nGET\r\n$99999\r\na\r\n",
        "GET a\r\n",
    ] {
        assert_eq!(ahead(other.as_bytes()), Vec::<Vec<u8>>::new());
    }
}
