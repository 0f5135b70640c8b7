using MudServer.Hosting;

return await MudProgram.RunAsync(args);
