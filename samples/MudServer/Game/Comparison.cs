namespace MudServer.Game;

/// <summary>Sends the same lines one by one and in one scope, over the same transport as all output. Only the game loop uses it.</summary>
internal sealed class Comparison(IOutputBuffer buffer, GameSettings settings, TimeProvider timeProvider)
{
    private const int Lines = 1000;
    private const int WarmUpLines = 100;

    // The whole game waits while the lines are sent one by one.
    private static readonly TimeSpan Pause = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan LongestFlush = TimeSpan.FromSeconds(5);

    // The group has no members: its lines cross the broker, and appear on no screen.
    private static readonly OutputHandle Group = OutputHandle.Named("comparison");

    private long? _endedAt;

    /// <summary>Measures both ways, and returns the lines that show the result.</summary>
    public async Task<IReadOnlyList<string>> RunAsync()
    {
        if (_endedAt is { } endedAt && Pause - timeProvider.GetElapsedTime(endedAt) is var left && left > TimeSpan.Zero)
            return [$"A comparison has just ended. Try again in {Math.Ceiling(left.TotalSeconds)} s."];
        try
        {
            return await CompareAsync();
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

    private async Task<IReadOnlyList<string>> CompareAsync()
    {
        // .NET compiles code when it first runs.
        await SendOneByOneAsync(WarmUpLines);
        await SendInOneScopeAsync(WarmUpLines);
        var oneByOne = await MeasureAsync(SendOneByOneAsync);
        var inOneScope = await MeasureAsync(SendInOneScopeAsync);
        return
        [
            $"{Lines} lines, over {settings.Hop}:",
            $"  one by one    {oneByOne}",
            $"  in one scope  {inOneScope}",
            $"  The scope is {oneByOne.Time / inOneScope.Time:0} times as fast.",
        ];
    }

    private async Task<Result> MeasureAsync(Func<int, Task> sendAsync)
    {
        var sendsBefore = buffer.GetStatistics().Sends;
        var startedAt = timeProvider.GetTimestamp();
        await sendAsync(Lines);
        var time = timeProvider.GetElapsedTime(startedAt);
        return new Result(buffer.GetStatistics().Sends - sendsBefore, time);
    }

    private async Task SendOneByOneAsync(int lines)
    {
        for (var line = 0; line < lines; line++)
        {
            await buffer.WriteAsync(Group, $"line {line}\r\n");
            await FlushAsync();
        }
    }

    private async Task SendInOneScopeAsync(int lines)
    {
        using (buffer.BeginBufferingScope(Group))
        {
            for (var line = 0; line < lines; line++)
                await buffer.WriteAsync(Group, $"line {line}\r\n");
        }

        await FlushAsync();
    }

    private Task FlushAsync() => buffer.FlushAsync(Group).AsTask().WaitAsync(LongestFlush, timeProvider);

    private sealed record Result(long Sends, TimeSpan Time)
    {
        public override string ToString() => $"{Sends,5} {(Sends == 1 ? "send " : "sends")} {Time.TotalMilliseconds,8:0.0} ms";
    }
}
