//! Growth of a figure with the size of the cluster.

/// Fits `y = c * x^e` to the points by least squares of the logarithms and returns `e`: 0 if `y` does not grow, 1 if
/// it grows like `x`. Returns `None` without two different sizes. Zero counts as a very small figure.
pub fn growth_exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> =
        points.iter().filter(|(x, _)| *x > 0.0).map(|(x, y)| (x.ln(), y.max(1e-3).ln())).collect();
    let count = logs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let together: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (logs.len() > 1 && spread > 1e-12).then(|| together / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponent(of: impl Fn(f64) -> f64) -> f64 {
        let sizes = [16.0, 64.0, 256.0];
        growth_exponent(&sizes.map(|size| (size, of(size)))).unwrap()
    }

    #[test]
    fn exponent_tells_constant_linear_and_quadratic_growth_apart() {
        assert!(exponent(|_| 1.2).abs() < 1e-9);
        assert!((exponent(|size| 3.0 * size) - 1.0).abs() < 1e-9);
        assert!((exponent(|size| size * size / 7.0) - 2.0).abs() < 1e-9);
        assert!(exponent(|_| 0.0).abs() < 1e-9);
    }

    #[test]
    fn one_size_shows_no_growth() {
        assert_eq!(growth_exponent(&[(16.0, 1.0)]), None);
        assert_eq!(growth_exponent(&[(16.0, 1.0), (16.0, 2.0)]), None);
        assert_eq!(growth_exponent(&[]), None);
    }
}
