namespace BatchKit.Chaos.Histories;

public sealed class HistoryEventTests
{
    [Fact]
    public void Each_event_is_read_as_it_was_written()
    {
        HistoryEvent[] events =
        [
            new Started(1), new Accepted(3, 0, 2), new Settled(4, 0, 2, 1), new Arrived(5, new MessageId("game", 2, 7), 9), new Quiet(6),
        ];

        Assert.Equal(events, events.Select(each => HistoryEvent.Parse(each.ToString())));
        Assert.Equal([0, 2, 1], Assert.IsType<AboutToWrite>(HistoryEvent.Parse(new AboutToWrite(2, 0, [0, 2, 1]).ToString())).Targets);
        var ended = Assert.IsType<Ended>(HistoryEvent.Parse(new Ended(7, [1, 2, 3, 4, 5], []).ToString()));
        Assert.Equal([1, 2, 3, 4, 5], ended.Output);
        Assert.Empty(ended.Input);
    }

    [Fact]
    public void A_line_that_a_kill_has_cut_does_not_count()
    {
        var path = Path.GetTempFileName();
        try
        {
            File.WriteAllText(path, $"{new Started(1)}\n{new Quiet(2)}"[..^3]);

            Assert.Equal([new Started(1)], NodeHistory.ReadEvents(path));
        }
        finally
        {
            File.Delete(path);
        }
    }
}
