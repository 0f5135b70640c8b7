using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>What an outbox does when the transport behind it fails, refuses or hangs, and when it is stopped and others go on.</summary>
[Trait("Lane", "faults: processes and servers are killed again and again")]
public sealed class PostgresOutboxFaultTests(PostgresFixture fixture)
{
    private const int SendingOnFailed = 2660;
    private const int SendingOnAgain = 2661;
    private const int Refused = 2662;
    private const int Malformed = 2663;

    private static readonly OutputHandle Room = OutputHandle.Named("room");
    private static readonly OutputHandle Hall = OutputHandle.Named("hall");

    [Fact]
    public async Task A_failing_transport_is_tried_again_and_nothing_overtakes()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        var stalled = way.Inner.Fail(2).Stall();
        for (var line = 0; line < 5; line++)
            await way.EnqueueAsync(Room, commits: true, $"line {line}");

        await way.StartAsync();
        await stalled.EnteredAsync();
        var fault = way.Outbox.Fault;
        await way.EnqueueAsync(Room, commits: true, "line 5");
        stalled.Release();
        await way.WaitForAsync(6);
        await way.WaitUntilEmptyAsync();

        Assert.StartsWith("The transport behind the outbox failed 2 consecutive times: ", fault, StringComparison.Ordinal);
        Assert.Null(way.Outbox.Fault);
        Assert.Equal(Some.Lines(6), way.Arrived.Texts);
        Assert.Equal((2, 1), (way.Log.Count(SendingOnFailed), way.Log.Count(SendingOnAgain)));
        Assert.Equal(1, way.Inner.MostSendsUnderWay);
    }

    [Fact]
    public async Task What_is_sent_again_has_its_producer_and_number()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        var arrived = new CollectingTransport();
        await using var outbox = way.Make(new ScriptedTransport(arrived).FailAfterPassing());
        await using (var output = new OutputBuffer(outbox))
        {
            output.Write(Room, "first"u8);
            await output.FlushAsync();
            output.Write(Hall, "second"u8);
            await output.FlushAsync();
        }

        await outbox.StartAsync(CancellationToken.None);
        await arrived.WaitForMessagesAsync(4);

        Assert.Equal(["first", "second", "first", "second"], arrived.Texts);
        Assert.Equal(
            arrived.Batches.Take(2).Select(batch => (batch.Handle, batch.Producer, batch.Number)),
            arrived.Batches.Skip(2).Select(batch => (batch.Handle, batch.Producer, batch.Number)));
    }

    [Fact]
    public async Task A_lost_acknowledgement_is_no_second_message_at_the_far_end()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        way.Inner.FailAfterPassing(2);
        await way.EnqueueAsync(Room, commits: true, Some.Lines(3));
        await way.EnqueueAsync(Hall, commits: true, Some.Lines(2));

        await way.StartAsync();
        await way.WaitUntilEmptyAsync();

        Assert.Equal((3, 2), (way.Arrived.TextsFor(Room).Count, way.Arrived.TextsFor(Hall).Count));
        Assert.Equal(4, way.Far.Receiver.GetStatistics().DuplicateBatches);
    }

    [Fact]
    public async Task Only_what_is_refused_is_buried()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        way.Inner.RefuseWhere(batch => batch.Handle == Hall);
        await way.EnqueueAsync(Room, commits: true, "line 0");
        await way.EnqueueAsync(Hall, commits: true, "refused");
        await way.EnqueueAsync(Room, commits: true, "line 1");

        await way.StartAsync();
        await way.WaitForAsync(2);
        await way.WaitUntilEmptyAsync();

        Assert.Equal(Some.Lines(2), way.Arrived.Texts);
        Assert.Equal(["The script says what became of each batch."], await way.Schema.ColumnAsync<string>("select error from {s}.dead"));
        Assert.Equal((1, 0), (way.Log.Count(Refused), way.Log.Count(SendingOnFailed)));
    }

    [Fact]
    public async Task Only_what_is_not_acknowledged_is_sent_again()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        way.Inner.Answer(BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Unacknowledged, BatchOutcome.Unacknowledged);
        foreach (var line in Some.Lines(4))
            await way.EnqueueAsync(Room, commits: true, line);

        await way.StartAsync();
        await way.WaitForAsync(3);
        await way.WaitUntilEmptyAsync();

        Assert.Equal(["line 0", "line 2", "line 3"], way.Arrived.Texts);
        Assert.Equal([1, 1, 1], way.Arrived.BatchesOfSends);
        Assert.Equal(0, way.Far.Receiver.GetStatistics().DuplicateBatches);
    }

    [Fact]
    public async Task A_row_that_is_no_frame_is_buried_and_the_others_go_on()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        await way.EnqueueAsync(Room, commits: true, "line 0");
        await way.Schema.ExecuteAsync("insert into {s}.messages (queue, shard, payload) select id, 0, 'no frame' from {s}.queues");
        await way.EnqueueAsync(Room, commits: true, "line 1");

        await way.StartAsync();
        await way.WaitForAsync(2);
        await way.WaitUntilEmptyAsync();

        Assert.Equal(Some.Lines(2), way.Arrived.Texts);
        Assert.Equal(1, await way.Schema.ScalarAsync<long>("select count(*) from {s}.dead"));
        Assert.Equal(1, way.Log.Count(Malformed));
    }

    [Fact]
    public async Task A_send_that_hangs_is_cancelled_and_made_again()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        way.Inner.Stall();
        await using var outbox = way.Make(configure: options => options.SendTimeout = TimeSpan.FromSeconds(2));
        await way.EnqueueAsync(Room, commits: true, "line 0");

        await outbox.StartAsync(CancellationToken.None);
        await way.WaitForAsync(1);

        Assert.Equal(Some.Lines(1), way.Arrived.Texts);
        Assert.Contains("within 00:00:02 (SendTimeout)", way.Log.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_stop_gives_back_what_could_not_be_sent_and_another_goes_on()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        way.Inner.Fail(1000);
        await way.EnqueueAsync(Room, commits: true, "line 0");
        await way.EnqueueAsync(Room, commits: true, "line 1");
        await way.StartAsync();
        await way.Log.WaitForAsync(SendingOnFailed);

        await way.Outbox.StopAsync(CancellationToken.None).WithinDeadline();
        var attempts = await way.Schema.ScalarAsync<int>("select sum(attempts)::int from {s}.messages");
        var inHand = await way.Schema.ScalarAsync<long>("select count(*) from {s}.shards where until is not null");
        var working = way.Make(way.Far);
        await using var _ = working;
        await working.StartAsync(CancellationToken.None);
        await way.WaitForAsync(2);

        Assert.Equal((0, 0L), (attempts, inHand));
        Assert.Equal(Some.Lines(2), way.Arrived.Texts);
    }

    [Fact]
    public async Task Of_several_that_share_an_outbox_one_sends_at_a_time()
    {
        await using var way = await OutboxWay.CreateAsync(fixture);
        await using var second = way.Make(configure: options => options.BatchSize = 3);
        await using var third = way.Make(configure: options => options.BatchSize = 3);
        await way.StartAsync();
        await second.StartAsync(CancellationToken.None);
        await third.StartAsync(CancellationToken.None);

        for (var line = 0; line < 200; line++)
            await way.Outbox.EnqueueAsync(Room, [Some.Message($"line {line}")]);
        await way.WaitForAsync(200);

        Assert.Equal(Some.Lines(200), way.Arrived.Texts);
        Assert.Equal(1, way.Inner.MostSendsUnderWay);
    }
}
