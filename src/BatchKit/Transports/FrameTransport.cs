using System.ComponentModel.DataAnnotations;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Options;

namespace BatchKit.Transports;

/// <summary>Sends batches as frames over any broker: your delegate publishes a frame, and the transport plans, encodes and reports.</summary>
/// <remarks>
/// <para>Frames that share a receiver are published one after another, in order; frames for different nodes are published side by side. When a publish
/// fails, no later frame of the same send for a receiver of that frame is published, so nothing overtakes it; dispatch sends both again.</para>
/// <para>A send completes when its last publish has completed, even after its token was cancelled: pass the token on to your client. A route with several
/// partitions has several sends under way, and the delegate is then called from several threads.</para>
/// </remarks>
public sealed class FrameTransport : IBatchTransport, IDisposable
{
    private readonly Func<OutgoingFrame, CancellationToken, ValueTask> _publish;
    private readonly string _busName;
    private readonly int _maxFrameBytes;
    private readonly int? _destinationNode;
    private readonly FrameSigner? _signer;
    private volatile bool _isDisposed;

    /// <summary>Creates a transport.</summary>
    /// <param name="publish">
    /// Publishes one frame. Completing its task means that the broker has the frame. When it throws <see cref="FrameRefusedException"/>, the frame's
    /// batches have failed; after <see cref="FrameNotTakenException"/> they are sent again, while output for other receivers goes on; after any other exception they are sent again before
    /// anything else, although the frame may have arrived.
    /// </param>
    /// <param name="options">The settings, read once; the defaults when null.</param>
    /// <exception cref="OptionsValidationException">A setting is outside its range; the message names it.</exception>
    public FrameTransport(Func<OutgoingFrame, CancellationToken, ValueTask> publish, FrameTransportOptions? options = null)
    {
        ArgumentNullException.ThrowIfNull(publish);
        options ??= new FrameTransportOptions();
        OptionsRules.ThrowIfInvalid(new FrameTransportOptionsValidator(), options);
        _publish = publish;
        _busName = options.BusName;
        _maxFrameBytes = options.MaxFrameBytes;
        _destinationNode = options.DestinationNode;
        _signer = options.Signer;
        SendsWithoutBlocking = options.PublishesWithoutBlocking;
    }

    /// <inheritdoc/>
    public bool SendsWithoutBlocking { get; }

    /// <inheritdoc/>
    public int MaxMessageBytes => MaxBatchBytes;

    /// <inheritdoc/>
    public int MaxBatchBytes => _maxFrameBytes - FrameWriter.OverheadBytes;

    /// <inheritdoc/>
    public string LimitingSetting => $"{nameof(FrameTransportOptions)}.{nameof(FrameTransportOptions.MaxFrameBytes)}";

    /// <inheritdoc/>
    public FrameDestination GetDestination(OutputHandle handle) => FrameDestination.Of(handle, _destinationNode);

    /// <summary>Publishes the batches, and completes when the broker has all frames.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="IOException">Nothing was acknowledged and nothing is refused; all batches may be sent again.</exception>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        cancellationToken.ThrowIfCancellationRequested();
        var frames = FramePlan.Create(batches, _maxFrameBytes, _destinationNode, _signer);
        var results = frames.Count == 1
            ? [await PublishAsync(frames[0], cancellationToken).ConfigureAwait(false)]
            : await FrameTurns.PublishAsync(frames, run => PublishAsync(run, cancellationToken), HoldUp).ConfigureAwait(false);
        if (Array.TrueForAll(results, static result => result.Outcome == FrameOutcome.Acknowledged))
            return;
        var failure = FrameReport.ToException(_busName, frames, results, batches.Length);
        if (failure is not BatchSendException)
            cancellationToken.ThrowIfCancellationRequested();
        throw failure;
    }

    /// <summary>Makes later sends throw; a send under way continues.</summary>
    public void Dispose() => _isDisposed = true;

    private static FrameDestination? HoldUp(FrameDestination destination, FrameResult result) =>
        result.Outcome is FrameOutcome.NotTaken or FrameOutcome.Unknown ? destination : null;

    private async ValueTask<FrameResult[]> PublishAsync(PlannedFrame[] frames, CancellationToken cancellationToken) =>
        await Task.WhenAll(Array.ConvertAll(frames, frame => PublishAsync(frame, cancellationToken))).ConfigureAwait(false);

    private async Task<FrameResult> PublishAsync(PlannedFrame frame, CancellationToken cancellationToken)
    {
        PooledFrame? encoded = null;
        try
        {
            encoded = frame.Encode(_signer);
            if (encoded.Bytes.Length > _maxFrameBytes)
                return new FrameResult(FrameOutcome.Refused, $"A batch for {frame.Destination} does not fit {nameof(FrameTransportOptions.MaxFrameBytes)} ({_maxFrameBytes}).");
            await _publish(new OutgoingFrame(frame.Destination, encoded.Bytes), cancellationToken).ConfigureAwait(false);
            return new FrameResult(FrameOutcome.Acknowledged);
        }
        catch (ArgumentException exception) when (encoded is null)
        {
            return new FrameResult(FrameOutcome.Refused, $"A batch for {frame.Destination} can't be encoded: {FailureText.MessageOf(exception)}", exception);
        }
        catch (FrameRefusedException exception)
        {
            return new FrameResult(FrameOutcome.Refused, FailureText.MessageOf(exception), exception);
        }
        catch (FrameNotTakenException exception)
        {
            return new FrameResult(FrameOutcome.NotTaken, FailureText.MessageOf(exception), exception);
        }
        catch (Exception exception)
        {
            // After any other exception the broker may have the frame; the send reports it.
            return new FrameResult(FrameOutcome.Unknown, FailureText.MessageOf(exception), exception);
        }
        finally
        {
            encoded?.Dispose();
        }
    }
}

/// <summary>A frame to publish.</summary>
/// <param name="Destination">The receivers that must get it: of one node, or of all.</param>
/// <param name="Bytes">The frame, valid until the task that publishes it has ended. Copy bytes that you need after that.</param>
public readonly record struct OutgoingFrame(FrameDestination Destination, ReadOnlyMemory<byte> Bytes);

/// <summary>The broker will never take a frame: its node is gone, or the broker's limit is too small. The frame's batches have failed and are not sent again.</summary>
/// <param name="message">Why, in a human-readable sentence.</param>
/// <param name="innerException">The cause, if there is one.</param>
public sealed class FrameRefusedException(string message, Exception? innerException = null) : Exception(message, innerException);

/// <summary>The broker answers that it does not take a frame now, and works for others: the queue of its node is full. The frame's batches are sent again, before newer output for the same receivers.</summary>
/// <param name="message">Why, in a human-readable sentence.</param>
/// <param name="innerException">The cause, if there is one.</param>
public sealed class FrameNotTakenException(string message, Exception? innerException = null) : Exception(message, innerException);

/// <summary>The settings of a <see cref="FrameTransport"/>, read when it is created.</summary>
public sealed class FrameTransportOptions
{
    /// <summary>The broker's name in errors; <c>The bus</c> by default.</summary>
    [Required]
    public string BusName { get; set; } = "The bus";

    /// <summary>The most bytes in a frame; 1 MiB by default, from 4,096 to 128 MiB, the largest that a receiver takes.</summary>
    /// <remarks>Keep it within what the broker takes as one message, and <see cref="FrameWriter.OverheadBytes"/> above <see cref="OutputBufferOptions.MaxBatchBytes"/>: otherwise a buffer is not created.</remarks>
    [NumberRange(4096, 128 * 1024 * 1024)]
    public int MaxFrameBytes { get; set; } = 1024 * 1024;

    /// <summary>The node that all output goes to, such as the game behind a gateway; none by default: a connection's output goes to its node, and a named handle's to all nodes.</summary>
    [NumberRange(0, OutputHandle.MaxNode)]
    public int? DestinationNode { get; set; }

    /// <summary>Signs the frames; null, the default, for none. <c>UseFrameTransport</c> takes it from <see cref="OutputBufferOptions.FrameKeys"/>.</summary>
    public FrameSigner? Signer { get; set; }

    /// <summary>Whether the delegate never blocks its caller for long, so that a send may begin on the thread of the write; false by default.</summary>
    public bool PublishesWithoutBlocking { get; set; }
}

/// <summary>Checks the options, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class FrameTransportOptionsValidator : IValidateOptions<FrameTransportOptions>;
