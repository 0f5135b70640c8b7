using System.Diagnostics;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Tests.Receiving;
using BatchKit.Postgres.Tests.Sending;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests;

/// <summary>The trace of a send, which rows and frames carry to whoever handles them.</summary>
public sealed class TraceTests(PostgresFixture postgres) : IDisposable
{
    private const string Queue = "tasks";

    private static readonly MessageHeader Header = new() { Type = "type", Properties = [new(QueueMessageHeader.PriorityProperty, "3")] };

    private readonly SpanCollector _spans = new();
    private readonly ProducerId _producer = Some.Producer();

    public void Dispose() => _spans.Dispose();

    [Theory]
    [InlineData(0)]
    [InlineData(4)]
    public async Task The_span_of_handling_is_a_child_of_the_send_and_current_in_the_handler(int shards)
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, Shards = shards });
        (Activity? Current, QueueMessage[] Messages) handled = (null, []);
        var handler = new ScriptedHandler((batch, _) =>
        {
            handled = (Activity.Current, [.. batch]);
            return ValueTask.CompletedTask;
        });

        var sender = await _spans.InSpanAsync(() => SendAsync(transport, 1, Some.Message("plain"), Some.Message("with a header", Header)));
        await using var receiver = await StartAsync(schema, handler, shards);
        await handler.WaitForAsync(2);
        var span = await _spans.WaitForAsync($"process {Queue}", sender);

        Assert.Equal((sender.TraceId, ActivityKind.Consumer, true), (span.TraceId, span.Kind, span.HasRemoteParent));
        Assert.Equal(("postgresql", 2), (span.GetTagItem("messaging.system"), span.GetTagItem("messaging.batch.message_count")));
        Assert.Equal(span, handled.Current);
        Assert.Equal(["type"], handled.Messages.Select(static message => message.Header).OfType<MessageHeader>().Select(static header => header.Type));
    }

    [Fact]
    public async Task Messages_of_several_sends_are_handled_in_a_span_that_links_to_each()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var handler = new ScriptedHandler();

        var first = await _spans.InSpanAsync(() => SendAsync(place.Transport, 1, Some.Message("one")));
        var second = await _spans.InSpanAsync(() => SendAsync(place.Transport, 2, Some.Message("two"), Some.Message("three")));
        await using var receiver = await StartAsync(place.Schema, handler, shards: 0);
        var span = await _spans.WaitForAsync($"process {Queue}", first);

        Assert.Equal(new HashSet<ActivitySpanId> { first.SpanId, second.SpanId }, SpanCollector.Links(span).ToHashSet());
        Assert.Equal(default, span.ParentSpanId);
    }

    [Fact]
    public async Task A_handler_that_throws_is_an_error_of_its_span()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var handler = new ScriptedHandler(static (_, _) => throw new NotSupportedException());

        var sender = await _spans.InSpanAsync(() => SendAsync(place.Transport, 1, Some.Message("one")));
        await using var receiver = await StartAsync(place.Schema, handler, shards: 0);
        var span = await _spans.WaitForAsync($"process {Queue}", sender);

        Assert.Equal((ActivityStatusCode.Error, typeof(NotSupportedException).FullName), (span.Status, span.GetTagItem("error.type")));
    }

    [Fact]
    public async Task A_row_without_a_recorded_span_is_stored_as_before()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        Activity.Current = null;

        await SendAsync(place.Transport, 1, Some.Message("plain"));
        await SendAsync(place.Transport, 2, Some.Message("high", QueueMessageHeader.Create(priority: 3)));

        Assert.Equal(2L, await place.Schema.ScalarAsync<long>("select count(*) from {s}.messages where header is null"));
    }

    [Fact]
    public async Task A_priority_takes_nothing_else_from_a_header()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var full = new MessageHeader { Type = "type", ReplyTo = "answers", CorrelationData = [1, 2], IsRetained = true, Properties = [new(QueueMessageHeader.PriorityProperty, "3")] };

        await SendAsync(place.Transport, 1, Some.Message("full", full));

        var read = StoredHeader.Read(await place.Schema.ScalarAsync<byte[]>("select header from {s}.messages"))!;
        Assert.Equal(("type", "answers", true), (read.Type, read.ReplyTo, read.IsRetained));
        Assert.Equal([1, 2], read.CorrelationData);
        Assert.Empty(read.Properties);
    }

    [Fact]
    public async Task An_outbox_forwards_in_a_span_of_the_trace_that_stored()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var next = new TracedTransport();
        await using var outbox = new PostgresOutbox(schema.DataSource, next, new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(50) });

        var sender = await _spans.InSpanAsync(() => outbox.SendAsync(new[] { Some.Batch(Some.Connection(), _producer, 1, "sent") }, CancellationToken.None).AsTask());
        await outbox.StartAsync(CancellationToken.None).WithinDeadline();
        var sent = await _spans.WaitForAsync("process outbox", sender);
        var caller = await _spans.InSpanAsync(async () => await outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message("enqueued")]));
        var enqueued = await _spans.WaitForAsync("process outbox", caller);

        Assert.Equal([(sent.TraceId, sent.SpanId), (enqueued.TraceId, enqueued.SpanId)], next.Current);
        Assert.Equal((sender.TraceId, caller.TraceId), (sent.TraceId, enqueued.TraceId));
    }

    private static async Task<PostgresQueueReceiver> StartAsync(TestSchema schema, IMessageHandler<QueueMessage> handler, int shards)
    {
        var receiver = new PostgresQueueReceiver(
            schema.DataSource, new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = Queue, Shards = shards, Concurrency = 1, PollInterval = TimeSpan.FromMilliseconds(50) }, handler);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        return receiver;
    }

    private async Task SendAsync(PostgresQueueTransport transport, long number, params BatchMessage[] messages) =>
        await transport.SendAsync(new[] { MessageBatch.Create(OutputHandle.Named(Queue), _producer, number, messages) }, CancellationToken.None).WithinDeadline();

    /// <summary>Remembers the span that was current at each send.</summary>
    private sealed class TracedTransport : IBatchTransport
    {
        public List<(ActivityTraceId Trace, ActivitySpanId Span)> Current { get; } = [];

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            Current.Add((Activity.Current!.TraceId, Activity.Current.SpanId));
            return default;
        }
    }
}
