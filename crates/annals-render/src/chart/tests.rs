use super::font::Weight;
use super::scene::{Anchor, Color, Item};
use super::*;
use jiff::ToSpan as _;
use jiff::civil::date;
use proptest::prelude::*;

const DOLLAR: i128 = 1_000_000_000_000;

const MODELS: [&str; 10] = [
    "claude-sonnet-4-5-20250929",
    "claude-opus-4-5-20251101",
    "gpt-5-codex",
    "claude-haiku-4-5-20251001",
    "gemini-2.5-pro",
    "o4-mini",
    "gpt-5.1",
    "grok-code-fast-1",
    "qwen3-coder",
    "kimi-k2",
];

fn chart(axis: Axis, models: usize, bars: Vec<Bar>) -> Chart {
    Chart {
        title: "Cost by day".to_owned(),
        total: "$27.00".to_owned(),
        subtitle: "13 to 15 November 2026 · 9 requests".to_owned(),
        unit: Unit::Dollars,
        axis,
        legend: "Model".to_owned(),
        series: MODELS[..models].iter().map(|&name| name.into()).collect(),
        bars,
        notes: vec!["12 requests of 1 model have no price.".to_owned()],
    }
}

/// Columns of all sizes, from cents to thousands.
fn over_time(step: Step, count: i64, models: usize) -> Chart {
    let begin = date(2025, 10, 12).at(8, 0, 0, 0);
    let bar = |at: i64| Bar {
        time: Some(match step {
            Step::Hour => begin + at.hours(),
            Step::Block(hours) => begin + (at * i64::from(hours)).hours(),
            Step::Day => begin + at.days(),
            Step::Week => begin + at.weeks(),
            Step::Month => begin + at.months(),
            Step::Years(_) => begin + at.years(),
        }),
        parts: (0..models)
            .map(|model| {
                (
                    model,
                    i128::from(at % 7 * at) * DOLLAR / (1 + model as i128),
                )
            })
            .collect(),
        ..Bar::default()
    };
    chart(Axis::Time(step), models, (0..count).map(bar).collect())
}

fn by_name(names: impl IntoIterator<Item = String>, models: usize) -> Chart {
    let bar = |(at, label): (usize, String)| Bar {
        label,
        parts: (0..models)
            .map(|model| (model, DOLLAR * 1000 / (1 + at + model) as i128))
            .collect(),
        ..Bar::default()
    };
    let bars = names.into_iter().enumerate().map(bar).collect();
    chart(Axis::Names, models, bars)
}

fn size(text: &str) -> Size {
    text.parse().unwrap()
}

/// Two days, one of them with two models and a gap before it.
fn small() -> Chart {
    let bar = |day, parts| Bar {
        time: Some(date(2026, 11, day).at(0, 0, 0, 0)),
        parts,
        ..Bar::default()
    };
    let bars = vec![
        bar(13, vec![(0, 2 * DOLLAR)]),
        bar(15, vec![(1, 5 * DOLLAR), (0, 20 * DOLLAR)]),
    ];
    chart(Axis::Time(Step::Day), 2, bars)
}

fn svg(chart: &Chart, size: Size) -> String {
    chart.svg(size)
}

#[test]
fn a_small_chart_as_svg() {
    insta::assert_snapshot!(svg(&small(), size("480x270")));
}

#[test]
fn svg_has_no_external_references() {
    let svg = svg(&small(), Size::default());
    let document = roxmltree::Document::parse(&svg).unwrap();
    for node in document.descendants().filter(|node| node.is_element()) {
        let name = node.tag_name().name();
        let known = ["svg", "title", "desc", "rect", "path", "text", "g"];
        assert!(known.contains(&name), "{name}");
        for attribute in node.attributes() {
            assert!(!attribute.value().contains("url("));
            assert!(!attribute.name().contains("href"));
        }
    }
}

#[test]
fn tooltips_show_amounts_to_the_cent() {
    let mut chart = small();
    chart.bars[0].parts = vec![(0, 107_250_000_000)];
    let svg = svg(&chart, Size::default());
    assert!(svg.contains(
        "<title>Friday, 13 November 2026: $0.11\nclaude-sonnet-4-5-20250929: $0.11</title>"
    ));
    assert!(svg.contains("<title>Sunday, 15 November 2026: $25.00\n"));
}

/// The bounding box of every text.
fn boxes(items: &[Item], found: &mut Vec<(String, [f64; 4])>) {
    for item in items {
        match item {
            Item::Text {
                at,
                text,
                face,
                anchor,
            } => {
                let width = face.width(text);
                let left = match anchor {
                    Anchor::Start => at.0,
                    Anchor::Middle => at.0 - width / 2.0,
                    Anchor::End => at.0 - width,
                };
                let reach = [left, at.1 - face.size * 0.73, left + width, at.1];
                found.push((text.clone(), reach));
            }
            Item::Group { items, .. } => boxes(items, found),
            Item::Rect { .. } | Item::Line { .. } => {}
        }
    }
}

/// Checks that no text overlaps another or extends past the edge.
fn check_texts(chart: &Chart, size: Size) {
    let scene = chart.scene(size);
    let mut found = Vec::new();
    boxes(&scene.items, &mut found);
    for item in &scene.items {
        let Item::Line { from, to, .. } = item else {
            continue;
        };
        // The white background of amounts hides grid lines, so only lines of the time axis count.
        let down = from.0 == to.0 && chart.axis != Axis::Names;
        for (text, a) in found.iter().filter(|_| down) {
            let apart = from.0 <= a[0] || from.0 >= a[2] || to.1 <= a[1] || from.1 >= a[3];
            assert!(apart, "a line at {from:?} crosses {text:?} {a:?} at {size}");
        }
    }
    for (at, (text, a)) in found.iter().enumerate() {
        let inside = a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= scene.width && a[3] <= scene.height;
        assert!(inside, "{text:?} sticks out at {size}: {a:?}");
        for (other, b) in &found[at + 1..] {
            let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
            assert!(apart, "{text:?} {a:?} lies on {other:?} {b:?} at {size}");
        }
    }
}

#[test]
fn texts_do_not_overlap() {
    let long = |at: usize| format!("/home/dev/clients/a-long-name/{at}/services/gateway-{at}");
    for size in ["480x270", "1200x630", "1080x1350", "2400x700", "4096x4096"].map(size) {
        for models in [1, 4, 10] {
            for count in [1, 2, 7, 12, 30, 45, 90, 180, 400, 3000] {
                for step in [
                    Step::Hour,
                    Step::Day,
                    Step::Week,
                    Step::Month,
                    Step::Block(5),
                ] {
                    check_texts(&over_time(step, count.min(900), models), size);
                }
                check_texts(&over_time(Step::Day, count, models), size);
            }
        }
        for names in [1, 5, 21, 22, 10_000] {
            check_texts(&by_name((0..names).map(long), 4), size);
        }
    }
}

#[test]
fn excess_names_and_series_are_folded() {
    let names = (0..10_000).map(|at| format!("session {at}"));
    let scene = by_name(names, 10).scene(Size::default());
    let mut found = Vec::new();
    boxes(&scene.items, &mut found);
    let has = |text: &str| found.iter().any(|(found, _)| found == text);
    assert!(has("session 19") && !has("session 20"));
    assert!(has("9,980 others") && has("2 others"));
}

#[cfg(feature = "png")]
fn pixels(png: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = ::png::Decoder::new(std::io::Cursor::new(png))
        .read_info()
        .unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (info.width, info.height, pixels)
}

/// The areas of all rectangles of a colour.
#[cfg(feature = "png")]
fn painted(items: &[Item], color: Color, found: &mut Vec<scene::Area>) {
    for item in items {
        match item {
            Item::Rect { area, fill } if *fill == color => found.push(*area),
            Item::Group { items, .. } => painted(items, color, found),
            _ => {}
        }
    }
}

#[cfg(feature = "png")]
#[test]
fn png_is_painted_where_the_bars_are() {
    let chart = small();
    let png = chart.png(Size::default(), |_| {}).unwrap();
    let (width, height, pixels) = pixels(&png);
    assert_eq!((width, height), (2400, 1260));
    let at = |x: f64, y: f64| {
        let pixel = (y * 2.0) as usize * width as usize + (x * 2.0) as usize;
        [
            pixels[pixel * 3],
            pixels[pixel * 3 + 1],
            pixels[pixel * 3 + 2],
        ]
    };
    let color = Color(0x0072b2);
    let channels = [0x00, 0x72, 0xb2];
    let mut bars = Vec::new();
    painted(&chart.scene(Size::default()).items, color, &mut bars);
    // One in the legend and two columns.
    assert_eq!(bars.len(), 3);
    for bar in &bars {
        let (x, y) = ((bar.left + bar.right) / 2.0, (bar.top + bar.bottom) / 2.0);
        assert_eq!(at(x, y), channels);
    }
    // The day between them is empty.
    let gap = (bars[1].right + bars[2].left) / 2.0;
    assert_eq!(at(gap, bars[1].bottom - 3.0), [255; 3]);
    // The title is drawn above.
    let dark = (44..200).flat_map(|x| (40..70).map(move |y| (x, y)));
    let dark = dark
        .filter(|&(x, y)| at(x.into(), y.into())[0] < 90)
        .count();
    assert!((300..3000).contains(&dark), "{dark}");
    assert_eq!(png, chart.png(Size::default(), |_| {}).unwrap());
}

#[cfg(feature = "png")]
#[test]
fn characters_missing_from_the_font_are_still_drawn() {
    let ink = |label: &str| {
        let chart = by_name([label.to_owned()], 1);
        let (width, _, pixels) = pixels(&chart.png(size("480x270"), |_| {}).unwrap());
        let dark = pixels.chunks(3).enumerate();
        dark.filter(|(at, pixel)| {
            at % (width as usize) < 160 && pixel.iter().all(|part| *part < 90)
        })
        .count()
    };
    assert!(Weight::Plain.lacks_glyph('語'));
    assert!(ink("語語語語") > ink(" ") + 100);
}

#[test]
fn sizes_parse_within_limits() {
    assert_eq!(size("1200x630"), Size::default());
    assert_eq!(size("800×600").to_string(), "800x600");
    for bad in [
        "",
        "1200",
        "0x0",
        "479x600",
        "100000x600",
        "1200x",
        "x",
        "-800x600",
    ] {
        assert!(bad.parse::<Size>().is_err(), "{bad}");
    }
}

#[test]
fn format_from_path_uses_the_extension() {
    let of = |name: &str| Format::from_path(Path::new(name));
    assert_eq!(of("out.svg"), Some(Format::Svg));
    #[cfg(feature = "png")]
    assert_eq!(of("a.b/OUT.PNG"), Some(Format::Png));
    assert_eq!(of("out.jpg"), None);
    assert_eq!(of("svg"), None);
}

fn any_label() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[<>&\"'\\]\\[!\u{0}-\u{20}\u{7f}-\u{9f}\u{202a}-\u{202e}\u{fffe}\u{ffff}語א]{0,60}",
    ]
}

fn any_amount() -> impl Strategy<Value = i128> {
    prop_oneof![0..1_000 * DOLLAR, any::<i128>(), Just(0), Just(i128::MAX)]
}

fn any_chart() -> impl Strategy<Value = Chart> {
    let time = (-9999i16..=9999, 1i8..=12, 1i8..=28, 0i8..24)
        .prop_map(|(year, month, day, hour)| date(year, month, day).at(hour, 0, 0, 0));
    let near = (0i64..2000).prop_map(|hours| date(2026, 1, 1).at(0, 0, 0, 0) + hours.hours());
    let parts = prop::collection::vec((0usize..12, any_amount()), 0..5);
    let bar = (any_label(), prop_oneof![near, time], parts);
    let bar = bar.prop_map(|(label, time, parts)| Bar {
        label,
        detail: None,
        time: Some(time),
        parts,
    });
    let step = prop::sample::select(vec![
        Axis::Names,
        Axis::Time(Step::Hour),
        Axis::Time(Step::Block(5)),
        Axis::Time(Step::Day),
        Axis::Time(Step::Week),
        Axis::Time(Step::Month),
    ]);
    let unit = prop::sample::select(vec![Unit::Dollars, Unit::Tokens]);
    (
        [any_label(), any_label(), any_label()],
        prop::collection::vec(any_label(), 0..12),
        prop::collection::vec(bar, 0..40),
        step,
        unit,
    )
        .prop_map(
            |([title, subtitle, note], series, bars, axis, unit)| Chart {
                title,
                total: "$1".to_owned(),
                subtitle,
                unit,
                axis,
                legend: "Model".to_owned(),
                series,
                bars,
                notes: vec![note],
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_chart_is_strict_xml_with_its_title(chart in any_chart()) {
        let svg = svg(&chart, size("640x360"));
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf\""));
        let document = roxmltree::Document::parse(&svg).unwrap();
        let title = document.root_element().first_element_child().unwrap();
        // Strict readers normalise line breaks to one character; ours are already replaced.
        let expected = scene::make_visible(&chart.title).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
        prop_assert_eq!(title.text().unwrap_or_default(), expected);
        let hidden = document
            .descendants()
            .filter_map(|node| node.text())
            .flat_map(str::chars)
            .find(|&c| c != '\n' && matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{202a}'..='\u{202e}'));
        prop_assert_eq!(hidden, None);
    }

}

#[cfg(feature = "png")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_chart_encodes_as_png(chart in any_chart()) {
        let png = chart.png(Size::MIN, |_| {}).unwrap();
        prop_assert_eq!(pixels(&png).0, 960);
    }
}
