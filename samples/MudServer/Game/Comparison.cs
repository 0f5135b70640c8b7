namespace MudServer.Game;

/// <summary>Where a comparison's lines go, when that is not the path of all output.</summary>
/// <param name="Buffer">The buffer to write to.</param>
/// <param name="Name">What is behind it, for players.</param>
/// <param name="CloseAsync">Closes it.</param>
internal sealed record ComparisonHop(IOutputBuffer Buffer, string Name, Func<Task> CloseAsync);

/// <summary>Finds a broker for one comparison; null when there is none.</summary>
internal delegate Task<ComparisonHop?> FindComparisonHop();

/// <summary>
/// Sends the same lines one by one and in one scope: over a broker where one is found, and else over the path of all output. Any thread may run it.
/// </summary>
internal sealed class Comparison(IOutputBuffer output, GameSettings settings, FindComparisonHop findHop, TimeProvider timeProvider)
{
    /// <summary>A group without members: its lines cross the broker, and appear on no screen.</summary>
    public static readonly OutputHandle Group = OutputHandle.Named("comparison");

    private const int Lines = 1000;
    private const int WarmUpLines = 100;

    // All players share the broker.
    private static readonly TimeSpan Pause = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan LongestFlush = TimeSpan.FromSeconds(5);

    private long? _endedAt;
    private int _running;

    /// <summary>Measures both ways, and returns the lines that show the result.</summary>
    public async Task<IReadOnlyList<string>> RunAsync()
    {
        if (Interlocked.Exchange(ref _running, 1) == 1)
            return ["A comparison is running. Try again when it has ended."];
        try
        {
            return await RunAfterPauseAsync();
        }
        finally
        {
            Volatile.Write(ref _running, 0);
        }
    }

    private async Task<IReadOnlyList<string>> RunAfterPauseAsync()
    {
        if (_endedAt is { } endedAt && Pause - timeProvider.GetElapsedTime(endedAt) is var left && left > TimeSpan.Zero)
            return [$"A comparison has just ended. Try again in {Math.Ceiling(left.TotalSeconds)} s."];
        try
        {
            var hop = await findHop() ?? new ComparisonHop(output, settings.Hop, static () => Task.CompletedTask);
            try
            {
                return await CompareAsync(hop);
            }
            finally
            {
                await hop.CloseAsync();
            }
        }
        catch (Exception exception) when (exception is OutputDeliveryException or OutputOverflowException or TimeoutException)
        {
            return ["The comparison was stopped: output can't be sent just now."];
        }
        finally
        {
            _endedAt = timeProvider.GetTimestamp();
        }
    }

    private async Task<IReadOnlyList<string>> CompareAsync(ComparisonHop hop)
    {
        // .NET compiles code when it first runs.
        await SendOneByOneAsync(hop.Buffer, WarmUpLines);
        await SendInOneScopeAsync(hop.Buffer, WarmUpLines);
        var oneByOne = await MeasureAsync(hop.Buffer, SendOneByOneAsync);
        var inOneScope = await MeasureAsync(hop.Buffer, SendInOneScopeAsync);
        return
        [
            $"{Lines} lines, over {hop.Name}:",
            $"  one by one    {oneByOne}",
            $"  in one scope  {inOneScope}",
            $"  The scope is {oneByOne.Time / inOneScope.Time:0} times as fast.",
        ];
    }

    private async Task<Result> MeasureAsync(IOutputBuffer buffer, Func<IOutputBuffer, int, Task> sendAsync)
    {
        var sendsBefore = buffer.GetStatistics().Sends;
        var startedAt = timeProvider.GetTimestamp();
        await sendAsync(buffer, Lines);
        var time = timeProvider.GetElapsedTime(startedAt);
        return new Result(buffer.GetStatistics().Sends - sendsBefore, time);
    }

    private async Task SendOneByOneAsync(IOutputBuffer buffer, int lines)
    {
        for (var line = 0; line < lines; line++)
        {
            await buffer.WriteAsync(Group, $"line {line}\r\n");
            await FlushAsync(buffer);
        }
    }

    private async Task SendInOneScopeAsync(IOutputBuffer buffer, int lines)
    {
        using (buffer.BeginBufferingScope(Group))
        {
            for (var line = 0; line < lines; line++)
                await buffer.WriteAsync(Group, $"line {line}\r\n");
        }

        await FlushAsync(buffer);
    }

    private Task FlushAsync(IOutputBuffer buffer) => buffer.FlushAsync(Group).AsTask().WaitAsync(LongestFlush, timeProvider);

    private sealed record Result(long Sends, TimeSpan Time)
    {
        public override string ToString() => $"{Sends,5} {(Sends == 1 ? "send " : "sends")} {Time.TotalMilliseconds,8:0.0} ms";
    }
}
