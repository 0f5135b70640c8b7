namespace Shared;

/// <summary>Shows the last minute of a rate as a row of blocks, one for each second.</summary>
internal sealed class RateHistory(double expected)
{
    private const int Seconds = 60;
    private const string Blocks = "▁▂▃▄▅▆▇█";

    // The expected rate fills five eighths of a block. The rest is for the higher rates after a pause.
    private const double ExpectedBlock = 5;

    private readonly Queue<double> _rates = [];
    private TimeSpan _last;

    /// <summary>Adds a rate if a second has passed since the last one.</summary>
    public void Add(TimeSpan at, double rate)
    {
        if (_rates.Count > 0 && at - _last < TimeSpan.FromSeconds(1))
            return;
        _last = at;
        _rates.Enqueue(rate);
        if (_rates.Count > Seconds)
            _rates.Dequeue();
    }

    public override string ToString() => string.Concat(_rates.Select(BlockOf));

    private char BlockOf(double rate) =>
        rate <= 0 ? ' ' : Blocks[(int)Math.Clamp(Math.Round(rate / expected * ExpectedBlock) - 1, 0, Blocks.Length - 1)];
}
