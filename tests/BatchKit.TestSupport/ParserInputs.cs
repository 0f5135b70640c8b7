using System.Diagnostics;
using System.Globalization;

namespace BatchKit.TestSupport;

/// <summary>The mutated inputs that a test gives a parser: how many there are, and how long one may take.</summary>
public sealed class ParserInputs
{
    /// <summary>The environment variable that sets their number; the night sets it to 1000000.</summary>
    public const string Variable = "BATCHKIT_TEST_INPUTS";

    // An input takes microseconds. A machine that is busy or collects garbage makes that milliseconds, and only a loop that does not end makes it seconds.
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(30);

    private long _began;

    /// <summary>How many inputs there are in this run: a hundred thousand by default.</summary>
    public static int Count { get; } = int.Parse(Environment.GetEnvironmentVariable(Variable) ?? "100000", CultureInfo.InvariantCulture);

    /// <summary>The longest time that one input has taken so far.</summary>
    public TimeSpan Longest { get; private set; }

    /// <summary>Starts the time of the next input.</summary>
    public void Begin() => _began = Stopwatch.GetTimestamp();

    /// <summary>Ends the time of an input.</summary>
    /// <param name="input">Its number.</param>
    /// <param name="seed">The seed that repeats it.</param>
    /// <exception cref="TimeoutException">It took more than 30 s.</exception>
    public void End(int input, int seed)
    {
        var elapsed = Stopwatch.GetElapsedTime(_began);
        if (elapsed > Longest)
            Longest = elapsed;
        if (elapsed > Limit)
            throw new TimeoutException($"Input {input} of seed {seed} took {elapsed.TotalSeconds:F1} s.");
    }

    /// <summary>Returns the longest time, to be written to the test's output.</summary>
    public override string ToString() => $"{Count} inputs, the longest {Longest.TotalMilliseconds:F1} ms.";
}
