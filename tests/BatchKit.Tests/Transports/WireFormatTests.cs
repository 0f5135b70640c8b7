using System.Diagnostics;
using System.Text.Json;
using System.Text.Json.Nodes;
using BatchKit.Testing;
using BatchKit.Transports;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Tests.Transports;

/// <summary>Other languages read frames: the readers of docs/wire-format read the vectors there, and frames that are made here, as this library does.</summary>
public sealed class WireFormatTests : IDisposable
{
    private const int RandomFrames = 200;
    private const int MutatedFrames = 3000;
    private const int MaxMutatedBytes = 4096;
    private const string Accept = "BATCHKIT_ACCEPT_VECTORS";

    private static readonly JsonSerializerOptions Indented = new() { WriteIndented = true };

    private static readonly Dictionary<string, byte[]> Vectors = WireVectors.Make();

    private static readonly FrameDestination Node = FrameDestination.Of(Some.Connection(3), destinationNode: null);
    private static readonly FrameDestination OtherNode = FrameDestination.Of(Some.Connection(4), destinationNode: null);

    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("batchkit-wire-");

    public void Dispose() => _folder.Delete(recursive: true);

    [Fact]
    public void The_vectors_are_what_is_written_and_read()
    {
        if (Environment.GetEnvironmentVariable(Accept) is not null)
        {
            foreach (var (name, frame) in Vectors)
            {
                File.WriteAllBytes(PathOf($"vectors/{name}.frame"), frame);
                File.WriteAllText(PathOf($"vectors/{name}.json"), Describe(frame).ToJsonString(Indented) + "\n");
            }
        }

        foreach (var (name, frame) in Vectors)
        {
            Assert.True(frame.AsSpan().SequenceEqual(File.ReadAllBytes(PathOf($"vectors/{name}.frame"))), $"{name} is written in another way. Frames of running processes would not be read: this needs a new version, or {Accept}=1 for a new vector.");
            Assert.True(JsonNode.DeepEquals(JsonNode.Parse(File.ReadAllText(PathOf($"vectors/{name}.json"))), Describe(frame)), name);
        }

        Assert.Equal(Vectors.Keys.Order(StringComparer.Ordinal), Directory.EnumerateFiles(PathOf("vectors"), "*.frame").Select(Path.GetFileNameWithoutExtension).Order(StringComparer.Ordinal)!);
    }

    [Theory]
    [InlineData("node", "reader.mjs")]
    [InlineData("python3", "reader.py")]
    [Trait("Lane", "slow: programs are started")]
    public void A_reader_in_another_language_reads_the_same(string program, string reader)
    {
        Assert.SkipWhen(Find(program) is null, $"{program} is not installed.");
        var frames = Vectors.Values.Concat(SomeBatches.OfOneProducer.Sample(RandomFrames).Select(static batches => Some.Frame(batches).ToArray())).ToArray();

        foreach (var (frame, line) in Read(program, reader, frames))
            Assert.True(JsonNode.DeepEquals(Describe(frame), JsonNode.Parse(line)), $"{Convert.ToHexString(frame)}: {line}");
    }

    [Theory]
    [InlineData("node", "reader.mjs")]
    [InlineData("python3", "reader.py")]
    [Trait("Lane", "slow: programs are started")]
    public void A_reader_in_another_language_refuses_the_same(string program, string reader)
    {
        Assert.SkipWhen(Find(program) is null, $"{program} is not installed.");
        var seed = int.TryParse(Environment.GetEnvironmentVariable("BATCHKIT_SEED"), out var given) ? given : 1;
        var corpus = Directory.EnumerateFiles(PathOf("../../tests/BatchKit.Fuzz/Corpus/frame")).Select(File.ReadAllBytes);
        byte[][] whole = [.. Vectors.Values, .. corpus, .. SomeBatches.OfOneProducer.Sample(RandomFrames, new Rnd((ulong)seed), size: 8).Select(static batches => Some.Frame(batches).ToArray())];
        whole = [.. whole.Where(static frame => frame.Length < MaxMutatedBytes / 2)];
        var random = new Random(seed);
        var mutator = new FrameMutator(random, MaxMutatedBytes);
        byte[][] frames = [.. HostileFrames.All, .. whole, .. Enumerable.Range(0, MutatedFrames).Select(_ => mutator.Mutate(whole[random.Next(whole.Length)]).ToArray())];

        foreach (var (frame, line) in Read(program, reader, frames))
            Assert.True(JsonNode.DeepEquals(WithoutTraceFlags(DescribeOrRefuse(frame)), WithoutTraceFlags(JsonNode.Parse(line)!)), $"{Convert.ToHexString(frame)}: {line}");

        Assert.All(HostileFrames.All, static frame => Assert.Equal("refused", (string?)DescribeOrRefuse(frame)));
    }

    [Theory]
    [InlineData("node", "signature.mjs")]
    [InlineData("python3", "signature.py")]
    [Trait("Lane", "slow: programs are started")]
    public void A_signature_is_verified_in_another_language(string program, string script)
    {
        Assert.SkipWhen(Find(program) is null, $"{program} is not installed.");
        var now = TimeProvider.System.GetUtcNow();
        var genuine = Sign(FrameDestination.All, now);
        var changed = genuine.ToArray();
        changed[^1] ^= 1;
        byte[][] frames =
        [
            genuine, Sign(Node, now), Sign(Node, now.AddHours(-23)), changed, Sign(OtherNode, now), Sign(Node, now.AddHours(-25)), Sign(Node, now.AddHours(25)), Sign(Node, now, seed: 2), genuine[..47], Vectors.First().Value,
        ];
        var paths = frames.Select((frame, index) => Write($"{index}.frame", frame)).ToArray();

        var lines = Run(program, Write(program == "node" ? "run.mjs" : "run.py", program == "node" ? NodeSignatureScript : PythonSignatureScript), [PathOf(script), Convert.ToHexString(KeyOf(1)), .. paths]);

        Assert.Equal(Enumerable.Repeat($"{Vectors.First().Value.Length}", 3).Concat(Enumerable.Repeat("refused", frames.Length - 3)), lines);
    }

    [Theory]
    [InlineData("reader.mjs")]
    [InlineData("reader.py")]
    public void A_reader_has_at_most_100_lines(string reader) => Assert.InRange(File.ReadAllLines(PathOf(reader)).Length, 50, 100);

    private const string NodeSignatureScript = """
        import { readFileSync } from 'node:fs';
        import { pathToFileURL } from 'node:url';
        const { openFrame } = await import(pathToFileURL(process.argv[2]));
        for (const path of process.argv.slice(4)) {
            try { console.log(openFrame(readFileSync(path), [Buffer.alloc(32, 9), Buffer.from(process.argv[3], 'hex')], 3).length); } catch { console.log('refused'); }
        }
        """;

    private const string PythonSignatureScript = """
        import importlib.util, sys
        spec = importlib.util.spec_from_file_location("signature", sys.argv[1])
        signature = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(signature)
        for path in sys.argv[3:]:
            try:
                print(len(signature.open_frame(open(path, "rb").read(), [b"9" * 32, bytes.fromhex(sys.argv[2])], 3)))
            except ValueError:
                print("refused")
        """;

    private const string NodeScript = """
        import { readFileSync } from 'node:fs';
        import { pathToFileURL } from 'node:url';
        const { readFrame, FrameError } = await import(pathToFileURL(process.argv[2]));
        const text = (key, value) => typeof value === 'bigint' ? value.toString() : value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value;
        const read = bytes => {
            try { return readFrame(new Uint8Array(bytes)); } catch (error) { if (error instanceof FrameError) return null; throw error; }
        };
        for (const line of readFileSync(process.argv[3], 'utf8').split('\n')) {
            const frame = read(Buffer.from(line, 'hex'));
            if (frame) frame.trace = frame.trace && Buffer.from(frame.trace).toString('hex');
            console.log(JSON.stringify(frame ?? 'refused', text));
        }
        """;

    private const string PythonScript = """
        import base64, importlib.util, json, sys
        spec = importlib.util.spec_from_file_location("reader", sys.argv[1])
        reader = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(reader)
        for line in open(sys.argv[2]):
            try:
                frame = reader.read_frame(bytes.fromhex(line))
                for batch in frame["batches"]:
                    batch["number"] = str(batch["number"])
            except ValueError:
                frame = "refused"
            print(json.dumps(frame, default=lambda data: base64.b64encode(data).decode()))
        """;

    private static byte[] KeyOf(int seed) => Some.RandomBytes(FrameSigner.MinKeyBytes, seed);

    private static byte[] Sign(FrameDestination destination, DateTimeOffset time, int seed = 1)
    {
        var clock = new ManualTimeProvider();
        clock.JumpWallClock(time - clock.GetUtcNow());
        var signer = new FrameSigner(KeyOf(seed)) { TimeProvider = clock };
        using var read = FrameReader.Read(Vectors.First().Value);
        using var frame = PooledFrame.Encode(read.Batches.Span, signer, destination: destination);
        return frame.Bytes.ToArray();
    }

    // Each frame, and what the reader says of it.
    private IEnumerable<(byte[] Frame, string Line)> Read(string program, string reader, byte[][] frames)
    {
        var path = Write("frames.hex", string.Join('\n', frames.Select(Convert.ToHexString)));
        var lines = Run(program, Write(program == "node" ? "run.mjs" : "run.py", program == "node" ? NodeScript : PythonScript), [PathOf(reader), path]);
        Assert.Equal(frames.Length, lines.Length);
        return frames.Zip(lines);
    }

    private static JsonNode DescribeOrRefuse(byte[] frame)
    {
        try
        {
            return Describe(frame);
        }
        catch (FrameFormatException)
        {
            return JsonValue.Create("refused")!;
        }
    }

    // This library keeps the one flag that it knows.
    private static JsonNode WithoutTraceFlags(JsonNode frame)
    {
        if (frame is JsonObject read && (string?)read["trace"] is { } trace)
            read["trace"] = trace[..^2];
        return frame;
    }

    private static JsonObject Describe(byte[] frame)
    {
        using var received = FrameReader.Read(frame);
        var producer = received.Producer;
        return new JsonObject
        {
            ["producer"] = new JsonObject { ["node"] = producer.Node, ["epoch"] = $"{producer.Epoch}", ["partition"] = producer.Partition },
            ["trace"] = received.Trace == default ? null : $"{received.Trace.TraceId}{received.Trace.SpanId}{(byte)received.Trace.TraceFlags:x2}",
            ["batches"] = new JsonArray([.. received.Batches.ToArray().Select(Describe)]),
        };
    }

    private static JsonNode Describe(MessageBatch batch) => new JsonObject
    {
        ["number"] = $"{batch.Number}",
        ["handle"] = batch.Handle.Name is { } name ? new JsonObject { ["name"] = name } : new JsonObject { ["connection"] = $"{batch.Handle.Number}" },
        ["messages"] = new JsonArray([.. Enumerable.Range(0, batch.Count).Select(index => new JsonObject { ["header"] = Describe(batch[index].Header), ["latest"] = LatestKeyOf(batch, index), ["payload"] = Convert.ToBase64String(batch[index].Payload.Span) })]),
    };

    private static string? LatestKeyOf(MessageBatch batch, int index)
    {
        foreach (var latest in batch.LatestMessages)
        {
            if (latest.Index == index)
                return $"{latest.Key}";
        }

        return null;
    }

    private static JsonObject? Describe(MessageHeader? header) => header is null ? null : new JsonObject
    {
        ["replyTo"] = header.ReplyTo,
        ["correlation"] = Convert.ToBase64String(header.CorrelationData.AsSpan()),
        ["retained"] = header.IsRetained,
        ["kind"] = $"{header.Kind}".ToLowerInvariant(),
        ["excluded"] = new JsonArray([.. header.ExcludedConnections.Select(handle => JsonValue.Create($"{handle.Number}"))]),
        ["key"] = header.Key,
        ["contentType"] = header.ContentType,
        ["type"] = header.Type,
        ["properties"] = new JsonArray([.. header.Properties.Select(property => new JsonArray(property.Key, property.Value))]),
    };

    private string Write(string name, byte[] bytes)
    {
        var path = Path.Combine(_folder.FullName, name);
        File.WriteAllBytes(path, bytes);
        return path;
    }

    private string Write(string name, string text) => Write(name, System.Text.Encoding.UTF8.GetBytes(text));

    private static string[] Run(string program, string script, string[] arguments)
    {
        using var process = Process.Start(new ProcessStartInfo(program, [script, .. arguments]) { RedirectStandardOutput = true, UseShellExecute = false })!;
        var lines = process.StandardOutput.ReadToEnd().Split('\n', StringSplitOptions.RemoveEmptyEntries);
        process.WaitForExit();
        Assert.Equal(0, process.ExitCode);
        return lines;
    }

    private static string? Find(string program) =>
        (Environment.GetEnvironmentVariable("PATH") ?? string.Empty).Split(Path.PathSeparator).Select(folder => Path.Combine(folder, program)).FirstOrDefault(File.Exists);

    private static string PathOf(string name)
    {
        var folder = new DirectoryInfo(AppContext.BaseDirectory);
        while (!File.Exists(Path.Combine(folder.FullName, "BatchKit.sln")))
            folder = folder.Parent!;
        return Path.Combine(folder.FullName, "docs", "wire-format", name);
    }
}
