using BatchKit.PackageMatrix;

// Carries 1000 messages over each way to connect, with the versions that this program was built with. The exit code is 0 if all of them arrived once and in order over every way.
foreach (var line in Versions.List())
    Console.WriteLine(line);
await using var servers = await Servers.StartAsync();
var broken = 0;
foreach (var way in Ways.All(servers))
{
    var (isWhole, text) = await way.RunAsync();
    Console.WriteLine($"{way.Name}: {text}");
    if (!isWhole)
        broken++;
}

return broken == 0 ? 0 : 1;
