using System.Runtime.InteropServices;
using BatchKit.Transports;
using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>Sends batches over a MassTransit bus: each send is one frame for each destination, and each frame is one <see cref="BatchEnvelope"/>.</summary>
/// <remarks>
/// A connection's output goes to its node's queue, a named handle's output to every node's. A send completes when the bus has confirmed all its frames. On RabbitMQ, output
/// for a node that has no queue is refused (<see cref="BatchOutcome.Refused"/>); output for a named handle succeeds even when no node receives it. Thread-safe. Register it
/// with <c>UseMassTransit</c>, or create it yourself over a bus of yours.
/// </remarks>
public sealed class MassTransitTransport : IBatchTransport, IAsyncDisposable
{
    // Room in a frame for everything beside the message: producer, numbers and a handle with a short name.
    private const int FrameOverheadBytes = 1024;

    private readonly BusConnection _connection;
    private readonly TimeProvider _timeProvider;
    private volatile bool _isDisposed;

    /// <summary>Creates a transport over a bus that the caller configures, starts and stops.</summary>
    /// <param name="bus">The bus; on RabbitMQ with publisher confirms, which are MassTransit's default.</param>
    /// <param name="options">Settings; those of the connection and <see cref="MassTransitOptions.Bus"/> are not used.</param>
    /// <param name="timeProvider">The clock; the system's by default.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    public MassTransitTransport(IBus bus, MassTransitOptions? options = null, TimeProvider? timeProvider = null)
        : this(BusConnection.To(bus, options, timeProvider), timeProvider)
    {
    }

    internal MassTransitTransport(BusConnection connection, TimeProvider? timeProvider)
    {
        _connection = connection;
        _timeProvider = timeProvider ?? TimeProvider.System;
    }

    /// <summary>True: the caller's thread only encodes frames. Connecting and confirms are awaited.</summary>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    public int MaxMessageBytes => Options.MaxFrameBytes - FrameOverheadBytes;

    private MassTransitOptions Options => _connection.Options;

    /// <summary>Sends the batches, and completes when the bus has confirmed all frames.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="TimeoutException">A frame was not confirmed within <see cref="MassTransitOptions.PublishTimeout"/>.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        cancellationToken.ThrowIfCancellationRequested();
        return FramePlan.IsOneFrame(batches.Span, Options, out var node)
            ? SendOneAsync(batches, node, cancellationToken)
            : SendRunsAsync(FramePlan.Make(batches.Span, Options), batches.Length, cancellationToken);
    }

    /// <summary>Accepts no more sends. It does not stop the bus.</summary>
    public ValueTask DisposeAsync()
    {
        _isDisposed = true;
        return ValueTask.CompletedTask;
    }

    private async ValueTask SendOneAsync(ReadOnlyMemory<MessageBatch> batches, int? node, CancellationToken cancellationToken)
    {
        try
        {
            await SendFrameAsync(Encode(batches.Span), node, cancellationToken).ConfigureAwait(false);
        }
        catch (MessageReturnedException exception)
        {
            throw new BatchSendException([.. Enumerable.Repeat(BatchOutcome.Refused, batches.Length)], SendReport.DescribeRefusal(node), exception);
        }
    }

    private async ValueTask SendRunsAsync(FramePlan plan, int batches, CancellationToken cancellationToken)
    {
        var report = new SendReport(batches);
        foreach (var run in plan.Runs)
        {
            var sends = run.ConvertAll(frame => SendAsync(frame, cancellationToken));
            for (var index = 0; index < run.Count; index++)
                await report.AddAsync(run[index], sends[index]).ConfigureAwait(false);

            // A receiver that got the next run first would later drop the missing frames as seen.
            if (!report.IsSettled)
                break;
        }

        report.ThrowIfFailed();
    }

    private Task SendAsync(PlannedFrame frame, CancellationToken cancellationToken) => frame.IsTooLarge(Options.MaxFrameBytes)
        ? Task.FromException(new FrameTooLargeException(Options.MaxFrameBytes))
        : SendFrameAsync(Encode(CollectionsMarshal.AsSpan(frame.Batches)), frame.Node, cancellationToken);

    // MassTransit's transports take an array of the exact size.
    private static byte[] Encode(ReadOnlySpan<MessageBatch> batches)
    {
        using var frame = PooledFrame.Encode(batches);
        return frame.Bytes.ToArray();
    }

    private async Task SendFrameAsync(byte[] frame, int? node, CancellationToken cancellationToken)
    {
        // MassTransit retries until its token is cancelled, so the token always has a time limit.
        using var timeout = new CancellationTokenSource(Options.PublishTimeout, _timeProvider);
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(timeout.Token, cancellationToken);
        try
        {
            await _connection.SendAsync(frame, node, limit.Token).ConfigureAwait(false);
        }
        catch (MessageReturnedException exception)
        {
            if (_connection.Age.IsBelow(Options.UnroutableGrace))
                throw new IOException($"Node {node} has no queue yet, and the bus connected only recently.", exception);
            throw;
        }
        catch (OperationCanceledException exception) when (!cancellationToken.IsCancellationRequested)
        {
            _connection.Age.Restart();
            throw new TimeoutException(
                $"The bus did not confirm a frame within {nameof(MassTransitOptions.PublishTimeout)} ({Options.PublishTimeout}).", exception);
        }
        catch (Exception exception) when (exception is not OperationCanceledException)
        {
            _connection.Age.Restart();
            throw;
        }
    }
}

/// <summary>Collects the outcomes of the batches of a send that took several frames.</summary>
internal sealed class SendReport(int batches)
{
    private readonly BatchOutcome[] _outcomes = new BatchOutcome[batches];
    private Exception? _failure;
    private string? _text;

    /// <summary>True while every frame was acknowledged or refused.</summary>
    public bool IsSettled { get; private set; } = true;

    public static string DescribeRefusal(int? node) => $"Node {node} has no queue: no receiver runs there.";

    public async Task AddAsync(PlannedFrame frame, Task send)
    {
        var outcome = BatchOutcome.Acknowledged;
        try
        {
            await send.ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is MessageReturnedException or FrameTooLargeException)
        {
            outcome = BatchOutcome.Refused;
            _failure ??= exception;
            _text ??= exception is MessageReturnedException ? DescribeRefusal(frame.Node) : exception.Message;
        }
        catch (Exception exception)
        {
            outcome = BatchOutcome.Unacknowledged;
            _failure = exception;
            _text = exception.Message;
            IsSettled = false;
        }

        foreach (var place in frame.Places)
            _outcomes[place] = outcome;
    }

    public void ThrowIfFailed()
    {
        if (_failure is not null)
            throw new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(_outcomes), _text!, _failure);
    }
}
