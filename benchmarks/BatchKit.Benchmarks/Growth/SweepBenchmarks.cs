using System.Globalization;
using System.Reflection;
using BatchKit.Benchmarks.Scopes;
using BatchKit.Transports;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Growth;

/// <summary>What does a message cost with each size and count of a buffer and of its frames at its least, and at 32 times its default? <c>OptionSweepTests</c> count what it allocates.</summary>
[MemoryDiagnoser]
public class SweepBenchmarks
{
    private const string Defaults = "defaults";
    private const string Least = "least";
    private const string Most = "most";
    private const int Factor = 32;
    private const int Handles = 50;
    private const int Messages = 1000;

    private static readonly OutputHandle[] AllHandles = [.. Enumerable.Range(1, Handles).Select(static number => number % 5 == 0 ? OutputHandle.Named($"group:{number}") : OutputHandle.Connection(node: 1, number))];

    private byte[] _payload = [];
    private FrameTransport _transport = null!;
    private OutputBuffer _output = null!;

    public static IEnumerable<string> Settings => [Defaults, .. Properties.SelectMany(static property => new[] { $"{Name(property)}={Least}", $"{Name(property)}={Most}" })];

    /// <summary>The property that is set, without <c>Max</c> and <c>Buffered</c>: BenchmarkDotNet shortens names of more than 20 characters.</summary>
    [ParamsSource(nameof(Settings))]
    public string Setting { get; set; } = Defaults;

    private static IEnumerable<PropertyInfo> Properties =>
        from type in (Type[])[typeof(OutputBufferOptions), typeof(FrameTransportOptions)]
        from property in type.GetProperties()
        where property.GetCustomAttribute<NumberRangeAttribute>() is not null && property.Name is not (nameof(OutputBufferOptions.Node) or nameof(FrameTransportOptions.DestinationNode))
        select property;

    [GlobalSetup]
    public void Start()
    {
        var (options, frames) = (new OutputBufferOptions(), new FrameTransportOptions { DestinationNode = 1, PublishesWithoutBlocking = true });
        var set = Setting.Split('=') is [var name, _] ? Properties.Single(one => Name(one) == name) : null;
        set?.SetValue(
            set.DeclaringType == typeof(OutputBufferOptions) ? options : frames,
            Convert.ChangeType(ValueOf(set, isLeast: Setting.EndsWith(Least, StringComparison.Ordinal)), Nullable.GetUnderlyingType(set.PropertyType) ?? set.PropertyType, CultureInfo.InvariantCulture));

        // What must fit the setting gives way.
        if (set?.Name != nameof(frames.MaxFrameBytes))
            frames.MaxFrameBytes = Math.Max(frames.MaxFrameBytes, options.MaxBatchBytes + FrameWriter.OverheadBytes);
        options.MaxBatchBytes = Math.Min(options.MaxBatchBytes, frames.MaxFrameBytes - FrameWriter.OverheadBytes);
        options.MaxMessageBytes = (int)Math.Min(options.MaxMessageBytes, Math.Min(options.MaxBufferedBytes, options.MaxBufferedBytesPerHandle ?? long.MaxValue) - OutputBufferOptions.MessageOverheadBytes);

        _payload = new byte[Math.Min(100, options.MaxMessageBytes)];
        var receiver = new BatchReceiver(new CompletedTransport());
        _transport = new FrameTransport((frame, cancellationToken) => receiver.ReceiveAsync(frame.Bytes, cancellationToken), frames);
        _output = new OutputBuffer(_transport, options);
    }

    [GlobalCleanup]
    public void Stop()
    {
        _output.DisposeAsync().AsTask().GetAwaiter().GetResult();
        _transport.Dispose();
    }

    /// <summary>Half of the messages in a scope of all handles, a quarter each in scopes of one handle and outside.</summary>
    [Benchmark(OperationsPerInvoke = Messages)]
    public async Task WriteRound()
    {
        await using (_output.BeginBufferingScope())
        {
            for (var message = 0; message < Messages / 2; message++)
                await _output.WriteAsync(AllHandles[message % Handles], _payload).ConfigureAwait(false);
        }

        foreach (var handle in AllHandles)
        {
            await using (_output.BeginBufferingScope(handle))
            {
                for (var message = 0; message < Messages / 4 / Handles; message++)
                    await _output.WriteAsync(handle, _payload).ConfigureAwait(false);
            }
        }

        for (var message = 0; message < Messages / 4; message++)
            await _output.WriteAsync(AllHandles[message % Handles], _payload).ConfigureAwait(false);
        await _output.FlushAsync().ConfigureAwait(false);
    }

    private static string Name(PropertyInfo property) => property.Name["Max".Length..].Replace("Buffered", "", StringComparison.Ordinal);

    private static long ValueOf(PropertyInfo property, bool isLeast)
    {
        var range = property.GetCustomAttribute<NumberRangeAttribute>()!;
        if (!isLeast)
            return Math.Min(Factor * DefaultOf(property), range.Maximum);
        // A handle's share has room for a message.
        return property.Name == nameof(OutputBufferOptions.MaxBufferedBytesPerHandle) ? OutputBufferOptions.MessageOverheadBytes + 1 : range.Minimum;
    }

    // By default a handle may use all that the buffer has.
    private static long DefaultOf(PropertyInfo property)
    {
        object defaults = property.DeclaringType == typeof(OutputBufferOptions) ? new OutputBufferOptions() : new FrameTransportOptions();
        return Convert.ToInt64(property.GetValue(defaults) ?? new OutputBufferOptions().MaxBufferedBytes, CultureInfo.InvariantCulture);
    }
}
