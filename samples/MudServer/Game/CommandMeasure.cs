namespace MudServer.Game;

/// <summary>The cost of one command: the difference between the buffer's counters before it and after its messages were settled.</summary>
internal sealed class CommandMeasure(IOutputBuffer output, TimeProvider timeProvider)
{
    private readonly OutputStatistics _before = output.GetStatistics();
    private readonly long _startedAt = timeProvider.GetTimestamp();

    public string Describe(bool isSettled)
    {
        var elapsed = timeProvider.GetElapsedTime(_startedAt);
        var after = output.GetStatistics();
        var messages = after.AcceptedMessages - _before.AcceptedMessages;
        var sends = after.Sends - _before.Sends;
        return $"[{Count(messages, "message", "messages")} in {Count(sends, "send", "sends")}, {elapsed.TotalMilliseconds:0.0} ms{(isSettled ? string.Empty : ", not settled")}]";
    }

    private static string Count(long count, string one, string many) => $"{count} {(count == 1 ? one : many)}";
}
