//! Plots of figures over the size of the cluster, as SVG.

use std::fmt::Write;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 320.0;
/// Space for axis labels: left, right, top, bottom.
const MARGIN: (f64, f64, f64, f64) = (56.0, 150.0, 36.0, 40.0);
const COLOURS: [&str; 6] = ["#1b6ca8", "#c8553d", "#3f7d20", "#7d4e9e", "#b8860b", "#444444"];

/// One diagram with logarithmic axes.
#[derive(Clone, Debug, Default)]
pub struct PlotPanel {
    pub title: String,
    /// Name of the horizontal axis.
    pub sizes: String,
    pub series: Vec<PlotSeries>,
}

/// One line of a diagram.
#[derive(Clone, Debug, Default)]
pub struct PlotSeries {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Renders the diagrams side by side. Figures that are not positive are left out.
pub fn render_svg(panels: &[PlotPanel]) -> String {
    let width = WIDTH * panels.len().max(1) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{width}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    for (position, panel) in panels.iter().enumerate() {
        let _ = writeln!(svg, "<g transform=\"translate({},0)\">", WIDTH * position as f64);
        draw_panel(&mut svg, panel);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_panel(svg: &mut String, panel: &PlotPanel) {
    let (left, right, top, bottom) = MARGIN;
    let points =
        || panel.series.iter().flat_map(|series| series.points.iter()).filter(|(x, y)| *x > 0.0 && *y > 0.0);
    let (x_axis, y_axis) =
        (LogAxis::over(points().map(|point| point.0)), LogAxis::over(points().map(|point| point.1)));
    let x = |value: f64| left + x_axis.share(value) * (WIDTH - left - right);
    let y = |value: f64| HEIGHT - bottom - y_axis.share(value) * (HEIGHT - top - bottom);
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"20\" font-weight=\"bold\">{}</text>", escape(&panel.title));
    for tick in x_axis.ticks() {
        let at = x(tick);
        let _ = writeln!(svg, "<path d=\"M{at:.1} {top} V{}\" stroke=\"#ddd\"/>", HEIGHT - bottom);
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
            HEIGHT - bottom + 14.0
        );
    }
    for tick in y_axis.ticks() {
        let at = y(tick);
        let _ = writeln!(svg, "<path d=\"M{left} {at:.1} H{}\" stroke=\"#ddd\"/>", WIDTH - right);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
            left - 6.0,
            at + 4.0
        );
    }
    let centre = left + (WIDTH - left - right) / 2.0;
    let name = escape(&panel.sizes);
    let _ = writeln!(svg, "<text x=\"{centre}\" y=\"{}\" text-anchor=\"middle\">{name}</text>", HEIGHT - 8.0);
    for (number, series) in panel.series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let visible: Vec<_> = series.points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0).collect();
        let line: Vec<String> =
            visible.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            line.join(" ")
        );
        for point in visible {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                x(point.0),
                y(point.1)
            );
        }
        let (label_x, label_y) = (WIDTH - right + 10.0, top + 14.0 * (number as f64 + 1.0));
        let _ = writeln!(
            svg,
            "<text x=\"{label_x}\" y=\"{label_y}\" fill=\"{colour}\">{}</text>",
            escape(&series.name)
        );
    }
}

/// A logarithmic axis from one power of ten to another.
struct LogAxis {
    low: i32,
    high: i32,
}

impl LogAxis {
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(value.log10()), high.max(value.log10()));
        }
        if low > high {
            return Self { low: 0, high: 1 };
        }
        let low = low.floor() as i32;
        Self { low, high: (high.ceil() as i32).max(low + 1) }
    }

    fn share(&self, value: f64) -> f64 {
        (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        (self.low..=self.high).map(|power| 10f64.powi(power))
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_has_a_line_and_a_name() {
        let series = |name: &str| PlotSeries {
            name: name.into(),
            points: vec![(16.0, 1.5), (256.0, 0.0), (64.0, 2.0)],
        };
        let panel = PlotPanel {
            title: "a < b".into(),
            sizes: "members".into(),
            series: vec![series("x"), series("y")],
        };
        let svg = render_svg(&[panel, PlotPanel::default()]);
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (2, 4));
        assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
