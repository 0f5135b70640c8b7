using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

/// <summary>Latest values of a group whose members change meanwhile: who joins gets no value before its join, and who leaves none behind its leave.</summary>
public sealed class GroupChangeTests
{
    private static readonly OutputHandle Hall = OutputHandle.Named("hall");

    private readonly CollectingTransport _arrived = new();
    private readonly OutputHandle _ana = Some.Connection();

    public static TheoryData<string> Ways => ["alone", "in a scope", "in a writer", "in an ambient scope", "with a writer in an ambient scope", "in a scope that was open before"];

    [Theory]
    [MemberData(nameof(Ways))]
    public async Task A_value_stays_behind_the_join_that_it_was_written_after(string way)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport);
        buffer.Write(_ana, "under way");
        await stalled.EnteredAsync();
        var ambient = way.Contains("ambient", StringComparison.Ordinal) ? buffer.BeginBufferingScope() : default;
        var early = way == "in a scope that was open before" ? buffer.BeginBufferingScope(_ana) : default;

        buffer.WriteLatest(Hall, 1, "before");
        WriteJoin(buffer, way);
        buffer.WriteLatest(Hall, 1, "replaced");
        early.Dispose();
        buffer.WriteLatest(Hall, 1, "behind");
        ambient.Dispose();

        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();
        var texts = _arrived.Texts;
        Assert.Equal(["under way", "before"], texts.Take(2));
        Assert.Equal("behind", texts[^1]);
        Assert.True(texts.ToList().FindIndex(text => text.EndsWith("hall", StringComparison.Ordinal)) is var join && join > 1 && join < texts.Count - 1);
    }

    [Fact]
    public async Task A_leave_keeps_values_apart_as_a_join_does_and_a_close_does_not()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport);
        buffer.Write(_ana, "under way");
        await stalled.EnteredAsync();

        buffer.WriteLatest(Hall, 1, "to Ana");
        buffer.Write(_ana, ControlMessage.LeaveGroup("hall"));
        buffer.WriteLatest(Hall, 1, "replaced");
        buffer.Write(_ana, ControlMessage.Close);
        buffer.WriteLatest(Hall, 1, "to others");

        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(["under way", "to Ana", "\u0002hall", "to others", "\u0003"], _arrived.Texts);
        Assert.Equal(1, buffer.GetStatistics().SupersededMessages);
    }

    [Fact]
    public async Task Behind_a_thousand_joins_and_between_those_of_other_groups_a_value_is_replaced_again()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport);
        buffer.Write(_ana, "under way");
        await stalled.EnteredAsync();
        for (var number = 1; number <= 1000; number++)
            buffer.Write(OutputHandle.Connection(node: 1, number), ControlMessage.JoinGroup("hall"));

        for (var round = 0; round < 1000; round++)
        {
            buffer.WriteLatest(Hall, 1, $"{round}");
            buffer.Write(_ana, ControlMessage.JoinGroup($"room {round % 10}"));
        }

        // Groups may share a count: of ten others, nearly never two with this one.
        Assert.InRange(buffer.GetStatistics().SupersededMessages, 700, 999);
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();
    }

    private void WriteJoin(OutputBuffer buffer, string way)
    {
        if (way.Contains("writer", StringComparison.Ordinal))
        {
            using var writer = buffer.BeginWriting(_ana);
            writer.Write(ControlMessage.JoinGroup("hall"));
            return;
        }

        using var scope = way == "in a scope" ? buffer.BeginBufferingScope(_ana) : default;
        buffer.Write(_ana, ControlMessage.JoinGroup("hall"));
    }
}
