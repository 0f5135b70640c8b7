using System.ComponentModel.DataAnnotations;
using System.Reflection;
using BatchKit.Testing;
using BatchKit.Tests.Buffering;
using BatchKit.Tests.Support;
using BatchKit.Transports;

namespace BatchKit.Tests.Scale;

/// <summary>Each size and count of a buffer and of its frames, at its least, its default and far above, under one workload: what a message costs stays in proportion.</summary>
[Collection(nameof(MeasuresMemory))]
public sealed class OptionSweepTests
{
    private const int Factor = 32;
    private const int Rounds = 20;
    private const int Handles = 50;
    private const int MessagesPerHandle = 20;
    private const int LargeScopeMessages = 30_000;
    private const int RoundMessages = Handles * MessagesPerHandle;
    private const int Messages = (Rounds * RoundMessages) + LargeScopeMessages;

    // What a send allocates, with its frame and what reads it, and a batch: settings that divide output more make more of them.
    private const long BytesPerFrame = 2048;
    private const long BytesPerBatch = 1024;

    private static readonly OutputHandle[] AllHandles = [.. Enumerable.Range(0, Handles).Select(static index => index % 5 == 0 ? Some.Group() : Some.Connection())];

    public static TheoryData<string, long> Settings
    {
        get
        {
            var settings = new TheoryData<string, long>();
            foreach (var (property, range) in Ranges())
            {
                // A handle's share has room for a message.
                settings.Add(property, property == nameof(OutputBufferOptions.MaxBufferedBytesPerHandle) ? OutputBufferOptions.MessageOverheadBytes + 1 : range.Minimum);
                settings.Add(property, Math.Min(Factor * DefaultOf(property), range.Maximum));
            }

            return settings;
        }
    }

    [Theory]
    [MemberData(nameof(Settings))]
    public async Task What_is_allocated_stays_in_proportion_to_messages_batches_and_frames(string setting, long value)
    {
        var usual = await RunAsync(nameof(OutputBufferOptions.MaxBatchBytes), DefaultOf(nameof(OutputBufferOptions.MaxBatchBytes)));

        var swept = await RunAsync(setting, value);

        Assert.Equal(Messages, swept.Arrived);
        Assert.InRange(swept.Frames, 1, Messages);
        Assert.InRange(swept.Bytes, 0, (3 * usual.Bytes) + (BytesPerFrame * swept.Frames) + (BytesPerBatch * swept.Batches));
    }

    private static IEnumerable<(string Property, NumberRangeAttribute Range)> Ranges() =>
        from type in (Type[])[typeof(OutputBufferOptions), typeof(FrameTransportOptions)]
        from property in type.GetProperties()
        let range = property.GetCustomAttribute<NumberRangeAttribute>()
        where range is not null && property.Name is not (nameof(OutputBufferOptions.Node) or nameof(FrameTransportOptions.DestinationNode))
        select (property.Name, range);

    // By default a handle may use all that the buffer has.
    private static long DefaultOf(string property) => property == nameof(OutputBufferOptions.MaxBufferedBytesPerHandle)
        ? new OutputBufferOptions().MaxBufferedBytes
        : Convert.ToInt64((typeof(OutputBufferOptions).GetProperty(property) is { } own ? own.GetValue(new OutputBufferOptions()) : typeof(FrameTransportOptions).GetProperty(property)!.GetValue(new FrameTransportOptions()))!);

    private static async Task<Cost> RunAsync(string setting, long value)
    {
        var (options, frames) = (new OutputBufferOptions(), new FrameTransportOptions { DestinationNode = 1, PublishesWithoutBlocking = true });
        object target = typeof(OutputBufferOptions).GetProperty(setting) is null ? frames : options;
        var property = target.GetType().GetProperty(setting)!;
        property.SetValue(target, Convert.ChangeType(value, Nullable.GetUnderlyingType(property.PropertyType) ?? property.PropertyType));

        // What must fit the setting gives way.
        frames.MaxFrameBytes = setting == nameof(frames.MaxFrameBytes) ? frames.MaxFrameBytes : Math.Max(frames.MaxFrameBytes, options.MaxBatchBytes + FrameWriter.OverheadBytes);
        options.MaxBatchBytes = Math.Min(options.MaxBatchBytes, frames.MaxFrameBytes - FrameWriter.OverheadBytes);
        options.MaxMessageBytes = (int)Math.Min(options.MaxMessageBytes, Math.Min(options.MaxBufferedBytes, options.MaxBufferedBytesPerHandle ?? long.MaxValue) - OutputBufferOptions.MessageOverheadBytes);

        var arrived = new CountingTransport();
        var receiver = new BatchReceiver(arrived);
        var sent = 0;
        using var transport = new FrameTransport(
            (frame, cancellationToken) =>
            {
                sent++;
                return receiver.ReceiveAsync(frame.Bytes, cancellationToken);
            },
            frames);
        await using var buffer = new OutputBuffer(transport, options, timeProvider: new ManualTimeProvider());
        var payload = new byte[Math.Min(100, options.MaxMessageBytes)];
        await WriteRoundsAsync(buffer, rounds: 1, payload);
        var (batchesBefore, framesBefore, bytesBefore) = (arrived.Batches, sent, GC.GetTotalAllocatedBytes(precise: true));

        await WriteRoundsAsync(buffer, Rounds, payload);
        await WriteLargeScopeAsync(buffer, payload);

        return new Cost(arrived.Messages - RoundMessages, arrived.Batches - batchesBefore, GC.GetTotalAllocatedBytes(precise: true) - bytesBefore, sent - framesBefore);
    }

    private static async Task WriteLargeScopeAsync(OutputBuffer buffer, byte[] payload)
    {
        await using (buffer.BeginBufferingScope(AllHandles[0]))
        {
            for (var message = 0; message < LargeScopeMessages; message++)
                await buffer.WriteAsync(AllHandles[0], payload);
        }
    }

    // Half of the messages in a scope of all handles, a quarter each in scopes of one handle and outside.
    private static async Task WriteRoundsAsync(OutputBuffer buffer, int rounds, byte[] payload)
    {
        for (var round = 0; round < rounds; round++)
        {
            await using (buffer.BeginBufferingScope())
            {
                for (var message = 0; message < RoundMessages / 2; message++)
                    await buffer.WriteAsync(AllHandles[message % Handles], payload);
            }

            foreach (var handle in AllHandles)
            {
                await using (buffer.BeginBufferingScope(handle))
                {
                    for (var message = 0; message < MessagesPerHandle / 4; message++)
                        await buffer.WriteAsync(handle, payload);
                }
            }

            for (var message = 0; message < RoundMessages / 4; message++)
                await buffer.WriteAsync(AllHandles[message % Handles], payload);
            await buffer.FlushAsync();
        }
    }

    private sealed record Cost(long Arrived, long Batches, long Bytes, int Frames);
}
