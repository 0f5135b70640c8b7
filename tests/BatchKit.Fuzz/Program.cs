using BatchKit.Fuzz;
using SharpFuzz;

switch (args)
{
    // Has the assemblies of a folder report the branches that they take. .ci/fuzz does so with a copy of this program.
    case ["instrument", var folder]:
        foreach (var assembly in (string[])["BatchKit.dll", "BatchKit.Mqtt.dll", "BatchKit.Sockets.dll", "BatchKit.Broadcast.dll"])
            Fuzzer.Instrument(Path.Combine(folder, assembly), static _ => true, Options.Value);
        return 0;

    // Takes inputs from afl-fuzz until that ends it.
    case ["run", var target]:
        Fuzzer.Run(stream =>
        {
            using var input = new MemoryStream();
            stream.CopyTo(input);
            FuzzTarget.Run(target, input.ToArray());
        });
        return 0;

    // Shows what an input that afl-fuzz has kept does.
    case ["show", var target, var file]:
        FuzzTarget.Run(target, await File.ReadAllBytesAsync(file));
        return 0;

    default:
        Console.Error.WriteLine($"instrument <folder>, run <target>, or show <target> <file>. Targets: {string.Join(", ", FuzzTarget.Names)}.");
        return 2;
}
