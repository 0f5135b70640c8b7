using BatchKit.Testing;
using BatchKit.Transports;
using Grpc.Core;
using Streams;

namespace BatchKit.Pages.Tests.Grpc;

/// <summary>The transport of docs/grpc.md, with streams that fail.</summary>
public sealed class StreamTransportTests
{
    private readonly OutputHandle _first = Some.Connection();
    private readonly OutputHandle _second = Some.Connection();
    private readonly OutputHandle _third = Some.Connection();
    private readonly List<string> _written = [];
    private readonly StreamTransport _transport = new();

    [Fact]
    public async Task A_stream_that_throws_has_only_its_own_messages_refused()
    {
        _transport.Streams[_first] = Accepting();
        _transport.Streams[_second] = new Writer(static (_, _) => throw new RpcException(Status.DefaultCancelled));
        _transport.Streams[_third] = Accepting();

        var failure = await SendAsync((_first, "a"), (_second, "b"), (_third, "c"), (_second, "d"));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged, BatchOutcome.Refused], failure.Outcomes);
        Assert.Equal(["a", "c"], _written);
    }

    [Fact]
    public async Task A_send_that_is_cancelled_at_a_stream_repeats_only_what_was_not_written_before()
    {
        using var cancellation = new CancellationTokenSource();
        _transport.Streams[_first] = Accepting();
        _transport.Streams[_second] = new Writer((_, token) =>
        {
            cancellation.Cancel();
            return Task.FromCanceled(token);
        });
        _transport.Streams[_third] = Accepting();

        var failure = await SendAsync(cancellation.Token, (_first, "a"), (_second, "b"), (_third, "c"));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Unacknowledged], failure.Outcomes);
        Assert.Equal(["a"], _written);
    }

    private Task<BatchSendException> SendAsync(params (OutputHandle Player, string Text)[] batches) => SendAsync(CancellationToken.None, batches);

    private async Task<BatchSendException> SendAsync(CancellationToken cancellationToken, params (OutputHandle Player, string Text)[] batches)
    {
        var producer = Some.Producer();
        MessageBatch[] send = [.. batches.Select((batch, index) => Some.Batch(batch.Player, producer, index + 1, batch.Text))];
        return await Assert.ThrowsAsync<BatchSendException>(() => _transport.SendAsync(send, cancellationToken).WithinDeadline());
    }

    private Writer Accepting() => new((output, _) =>
    {
        _written.AddRange(output.Lines.Select(static line => line.ToStringUtf8()));
        return Task.CompletedTask;
    });

    private sealed class Writer(Func<Output, CancellationToken, Task> write) : IServerStreamWriter<Output>
    {
        public WriteOptions? WriteOptions { get; set; }

        public Task WriteAsync(Output message) => write(message, CancellationToken.None);

        public Task WriteAsync(Output message, CancellationToken cancellationToken) => write(message, cancellationToken);
    }
}
